#include "common/os/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

TEST(SharedMemory, IsSeenByWhoeverMapsIt) {
  const auto memory = SharedMemory::Create(3 * kPageBytes - 5);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ((*memory)->bytes(), 3 * kPageBytes);
  const auto mapped = MappedMemory::Map((*memory)->offer());
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ((*mapped)->bytes(), 3 * kPageBytes);
  EXPECT_NE((*mapped)->data(), (*memory)->data());
  EXPECT_EQ((*mapped)->data()[17], 0);
  (*memory)->data()[17] = 'x';
  EXPECT_EQ((*mapped)->data()[17], 'x');
}

TEST(SharedMemory, IsSeenByAnotherProcessAndOutlivesItsOwner) {
  auto memory = SharedMemory::Create(kPageBytes);
  ASSERT_TRUE(memory.ok());
  std::strcpy((*memory)->data(), "hello");
  const SharedMemoryOffer offer = (*memory)->offer();
  const pid_t child = fork();
  if (child == 0) {
    const auto mapped = MappedMemory::Map(offer);
    _exit(mapped.ok() && std::strcmp((*mapped)->data(), "hello") == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const auto mapped = MappedMemory::Map(offer);
  ASSERT_TRUE(mapped.ok());
  memory->reset();
  EXPECT_STREQ((*mapped)->data(), "hello");
  EXPECT_THAT(MappedMemory::Map(offer),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(SharedMemory, AppearsInTheMiddleOfOtherPages) {
  const auto memory = SharedMemory::Create(4 * kPageBytes);
  ASSERT_TRUE(memory.ok());
  for (int page = 0; page < 4; ++page) {
    (*memory)->data()[page * kPageBytes] = static_cast<char>('a' + page);
  }
  const PrivatePages pages(3 * kPageBytes);
  {
    const auto mapped = MappedMemory::Map((*memory)->offer());
    ASSERT_TRUE(mapped.ok());
    ASSERT_TRUE(
        (*mapped)
            ->MapAt(pages.data() + kPageBytes, 2 * kPageBytes, kPageBytes)
            .ok());
  }
  EXPECT_EQ(pages.data()[0], 0);
  EXPECT_EQ(pages.data()[kPageBytes], 'c');
  EXPECT_EQ(pages.data()[2 * kPageBytes], 0);
  (*memory)->data()[2 * kPageBytes] = 'z';
  EXPECT_EQ(pages.data()[kPageBytes], 'z');
}

class RefusedOffer : public ::testing::Test {
 protected:
  RefusedOffer() : memory_(*SharedMemory::Create(kPageBytes)) {}
  void ExpectRefused(const SharedMemoryOffer& offer, const char* reason) {
    EXPECT_THAT(
        MappedMemory::Map(offer),
        StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(reason)));
  }
  const std::shared_ptr<SharedMemory> memory_;
};

TEST_F(RefusedOffer, OfAnotherToken) {
  SharedMemoryOffer offer = memory_->offer();
  offer.mutable_token()->front() ^= 1;
  ExpectRefused(offer, "the memory of another process");
  offer.set_token("short");
  ExpectRefused(offer, "does not match its offer");
}

TEST_F(RefusedOffer, OfAnotherSize) {
  SharedMemoryOffer offer = memory_->offer();
  for (const int64_t bytes :
       {int64_t{0}, int64_t{1}, -kPageBytes, 2 * kPageBytes,
        int64_t{INT64_MAX - kPageBytes + 1}}) {
    offer.set_bytes(bytes);
    ExpectRefused(offer, "does not match its offer");
  }
}

TEST_F(RefusedOffer, OfNoSuchProcessOrFile) {
  SharedMemoryOffer offer = memory_->offer();
  offer.set_descriptor_number(987654);
  ExpectRefused(offer, "cannot be reached");
  offer = memory_->offer();
  offer.set_process(-1);
  ExpectRefused(offer, "cannot be reached");
}

TEST_F(RefusedOffer, OfWhatIsNoMemory) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  SharedMemoryOffer offer = memory_->offer();
  offer.set_descriptor_number(ends[0]);
  ExpectRefused(offer, "does not match its offer");
  close(ends[0]);
  close(ends[1]);
}

// Reading it could end this process with SIGBUS.
TEST_F(RefusedOffer, OfMemoryThatCouldShrink) {
  const int file = memfd_create("test", MFD_ALLOW_SEALING);
  ASSERT_GE(file, 0);
  ASSERT_EQ(ftruncate(file, 2 * kPageBytes), 0);
  const std::string token = memory_->offer().token();
  ASSERT_EQ(write(file, token.data(), token.size()),
            static_cast<ssize_t>(token.size()));
  SharedMemoryOffer offer = memory_->offer();
  offer.set_descriptor_number(file);
  ExpectRefused(offer, "could shrink");
  close(file);
}

}  // namespace
}  // namespace tributary

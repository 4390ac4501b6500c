#include "worker/data/images/cached_pictures.h"

#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/base/thread_pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/data/images/picture_test_util.h"

namespace tributary {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kPictures = 12;

// What a source has, and how often it was asked for it.
struct Stored {
  uint64_t stamp = 1;
  uint32_t version = 0;
  bool corrupt = false;
  std::atomic<int> reads{0};
};

Picture PictureOf(int64_t index, uint32_t version) {
  return MakePicture(3 + index, 5, 3,
                     static_cast<uint32_t>(index) + 100 * version);
}

class FakeSource final : public PictureSource {
 public:
  explicit FakeSource(Stored* stored) : stored_(*stored) {}

  int64_t size() const override { return kPictures; }
  int64_t Label(int64_t index) const override { return index % 2; }
  std::string Name(int64_t index) const override {
    return absl::StrCat("picture ", index);
  }
  absl::StatusOr<Picture> Read(int64_t index) const override {
    ++stored_.reads;
    if (stored_.corrupt) return absl::InvalidArgumentError("corrupt");
    return PictureOf(index, stored_.version);
  }
  absl::StatusOr<uint64_t> Hash(int64_t index) const override {
    return static_cast<uint64_t>(index);
  }
  absl::optional<uint64_t> Stamp(int64_t) const override {
    if (stored_.stamp == 0) return absl::nullopt;
    return stored_.stamp;
  }

 private:
  Stored& stored_;
};

class CachedPicturesTest : public testing::Test {
 protected:
  CachedPicturesTest()
      : folder_(absl::StrCat(
            testing::TempDir(), "/",
            testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }

  // As another process does.
  std::unique_ptr<PictureSource> Open(const std::string& folder) {
    SharedCache cache;
    cache.folder = folder;
    cache.warn = [this](const std::string& text) { warnings_.push_back(text); };
    cache.most_picture_bytes = most_bytes_;
    return CachedPictures::Wrap(std::make_unique<FakeSource>(&stored_),
                                /*channels=*/3, cache);
  }
  std::unique_ptr<PictureSource> Open() { return Open(folder_); }

  void ExpectAll(const PictureSource& source) const {
    for (int64_t i = 0; i < kPictures; ++i) {
      const absl::StatusOr<Picture> picture = source.Read(i);
      ASSERT_EQ(picture.status(), absl::OkStatus());
      const Picture want = PictureOf(i, stored_.version);
      EXPECT_EQ(picture->height, want.height);
      EXPECT_EQ(picture->width, want.width);
      EXPECT_EQ(picture->channels, want.channels);
      EXPECT_EQ(picture->pixels, want.pixels);
    }
  }
  // Returns the path of the file of entries (".index") or of pixels.
  std::string FileThatEndsIn(const std::string& suffix) const {
    for (const auto& file : std::filesystem::directory_iterator(folder_)) {
      if (file.path().extension() == suffix) return file.path().string();
    }
    return "";
  }

  const std::string folder_;
  Stored stored_;
  int64_t most_bytes_ = HalfOfMemory();
  std::vector<std::string> warnings_;
};

TEST_F(CachedPicturesTest, DecodesEachPictureOnceForAllProcesses) {
  const auto first = Open();
  ExpectAll(*first);
  EXPECT_EQ(stored_.reads, kPictures);
  ExpectAll(*first);
  ExpectAll(*Open());
  EXPECT_EQ(stored_.reads, kPictures);
  EXPECT_EQ(first->Label(3), 1);
  EXPECT_EQ(first->Name(3), "picture 3");
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(CachedPicturesTest, DecodesAgainWhatHasChanged) {
  ExpectAll(*Open());
  stored_.stamp = 2;
  stored_.version = 1;
  ExpectAll(*Open());
  EXPECT_EQ(stored_.reads, 2 * kPictures);
  ExpectAll(*Open());
  EXPECT_EQ(stored_.reads, 2 * kPictures);
}

TEST_F(CachedPicturesTest, DecodesAgainWhatIsDamaged) {
  ExpectAll(*Open());
  // As after a crash of the machine: some pixels have not reached the disk.
  const std::string pixels = FileThatEndsIn(".pixels");
  std::filesystem::resize_file(pixels, std::filesystem::file_size(pixels) / 2);
  ExpectAll(*Open());
  EXPECT_GT(stored_.reads, kPictures);
  EXPECT_LT(stored_.reads, 2 * kPictures);

  const int before = stored_.reads;
  std::ofstream(FileThatEndsIn(".index"), std::ios::binary)
      << std::string(24 * kPictures, '\x7f');
  ExpectAll(*Open());
  EXPECT_EQ(stored_.reads, before + kPictures);
}

TEST_F(CachedPicturesTest, ManyThreadsOfSeveralProcessesAppend) {
  const std::vector<std::unique_ptr<PictureSource>> sources = [this] {
    std::vector<std::unique_ptr<PictureSource>> opened;
    for (int i = 0; i < 3; ++i) opened.push_back(Open());
    return opened;
  }();
  EXPECT_EQ(ParallelFor(/*threads=*/6, 6,
                        [&](int, int64_t i) {
                          const auto at = static_cast<size_t>(i);
                          ExpectAll(*sources[at % sources.size()]);
                          return absl::OkStatus();
                        }),
            absl::OkStatus());
  const int before = stored_.reads;
  ExpectAll(*Open());
  EXPECT_EQ(stored_.reads, before);
}

TEST_F(CachedPicturesTest, KeepsNoErrors) {
  stored_.corrupt = true;
  EXPECT_THAT(Open()->Read(0),
              StatusIs(absl::StatusCode::kInvalidArgument, "corrupt"));
  stored_.corrupt = false;
  ExpectAll(*Open());
}

TEST_F(CachedPicturesTest, DecodesWithoutFilesIfThereCanBeNone) {
  const auto source = Open(folder_ + "/absent");
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("absent")));
  ExpectAll(*source);
  ExpectAll(*source);
  EXPECT_EQ(stored_.reads, 2 * kPictures);
  EXPECT_THAT(warnings_, SizeIs(1));
}

TEST_F(CachedPicturesTest, DoesNotKeepWhatIsInMemory) {
  stored_.stamp = 0;
  ExpectAll(*Open());
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(CachedPicturesTest, KeepsNoMoreThanTheMemoryHolds) {
  most_bytes_ = static_cast<int64_t>(PictureOf(0, 0).pixels.size() +
                                     PictureOf(1, 0).pixels.size());
  ExpectAll(*Open());
  ExpectAll(*Open());
  EXPECT_EQ(stored_.reads, kPictures + kPictures - 2);
  // One of each process.
  EXPECT_THAT(warnings_, SizeIs(2));
}

TEST_F(CachedPicturesTest, SaysThatAnEntryDoesNotFit) {
  // The file of entries ends within the last entry; that of pixels is shorter.
  constexpr int64_t kLast = kPictures - 1;
  const rlim_t most = kLast * 24 + 6;
  ASSERT_LT(PictureOf(kLast, 0).pixels.size(), most);
  const auto source = Open();
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small = {most, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  errno = 0;
  const absl::StatusOr<Picture> picture = source->Read(kLast);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_EQ(picture.status(), absl::OkStatus());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr(std::strerror(ENOSPC))));
}

// /dev/full has no space.
TEST_F(CachedPicturesTest, WarnsOnceIfTheDiskIsFull) {
  { ExpectAll(*Open()); }
  const std::string pixels = FileThatEndsIn(".pixels");
  const std::string index = FileThatEndsIn(".index");
  std::filesystem::remove(pixels);
  std::filesystem::remove(index);
  std::filesystem::create_symlink("/dev/full", pixels);
  const auto source = Open();
  ExpectAll(*source);
  ExpectAll(*source);
  EXPECT_EQ(stored_.reads, 3 * kPictures);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("decoded each time")));
}

}  // namespace
}  // namespace tributary

#include "common/update/pinned_arenas.h"

#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/executors.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr int64_t kArena = 4096;

class PinnedArenasTest : public testing::Test {
 protected:
  // Arenas of this size, of memory whose addresses alone are used.
  std::unique_ptr<PinnedArenas> Make(int64_t arenas,
                                     int64_t arena_bytes = kArena) {
    return std::make_unique<PinnedArenas>(
        memory_, arenas * arena_bytes, arena_bytes,
        [this](void* begin, size_t bytes) -> std::shared_ptr<void> {
          const std::pair<int64_t, size_t> range = {
              static_cast<char*>(begin) -
                  reinterpret_cast<char*>(memory_.get()),
              bytes};
          pinned_.insert(range);
          return std::shared_ptr<void>(
              begin, [this, range](void*) { pinned_.erase(range); });
        },
        &pool_);
  }

  HeldExecutor pool_;
  const Buffer memory_ = AllocateBuffer(16);
  std::set<std::pair<int64_t, size_t>> pinned_;  // Offsets and bytes.
};

TEST_F(PinnedArenasTest, PinsAnArenaWhenItIsUsed) {
  const auto arenas = Make(1000);
  EXPECT_THAT(pinned_, IsEmpty());
  arenas->Use(10, 100);
  arenas->Use(kArena - 1, 1);
  EXPECT_THAT(pinned_, IsEmpty());  // The caller must not wait for it.
  pool_.RunAll();
  EXPECT_THAT(pinned_, ElementsAre(Pair(0, kArena)));
  arenas->Use(7 * kArena, kArena);
  pool_.RunAll();
  EXPECT_THAT(pinned_, ElementsAre(Pair(0, kArena), Pair(7 * kArena, kArena)));
}

TEST_F(PinnedArenasTest, HandlesKeepArenasPinned) {
  auto arenas = Make(3);
  arenas->Use(0, 1);
  auto handle = arenas->Use(kArena, 1);
  pool_.RunAll();
  EXPECT_EQ(pinned_.size(), 2u);
  arenas.reset();
  EXPECT_THAT(pinned_, ElementsAre(Pair(kArena, kArena)));
  handle.reset();
  EXPECT_THAT(pinned_, IsEmpty());
}

TEST_F(PinnedArenasTest, HandlesFromBeforeAnArenaIsPinnedKeepItPinned) {
  auto arenas = Make(3);
  auto handle = arenas->Use(kArena, 1);
  arenas.reset();
  pool_.RunAll();
  EXPECT_THAT(pinned_, ElementsAre(Pair(kArena, kArena)));
  handle.reset();
  EXPECT_THAT(pinned_, IsEmpty());
}

TEST_F(PinnedArenasTest, DoesNotPinWhatLiesInTwoArenas) {
  const auto arenas = Make(3);
  EXPECT_NE(arenas->Use(kArena - 1, 2), nullptr);
  pool_.RunAll();
  EXPECT_THAT(pinned_, IsEmpty());
}

TEST_F(PinnedArenasTest, PinsABoundedAmount) {
  constexpr int64_t kLarge = PinnedArenas::kMaximumBytes / 3;
  const auto arenas = Make(5, kLarge);
  for (int i = 0; i < 5; ++i) EXPECT_NE(arenas->Use(i * kLarge, 1), nullptr);
  pool_.RunAll();
  EXPECT_EQ(pinned_.size(), 3u);
}

TEST_F(PinnedArenasTest, PinsTwoArenasOfAnySize) {
  constexpr int64_t kHuge = 2 * PinnedArenas::kMaximumBytes;
  const auto arenas = Make(3, kHuge);
  for (int i = 0; i < 3; ++i) arenas->Use(i * kHuge, 1);
  pool_.RunAll();
  EXPECT_EQ(pinned_.size(), 2u);
}

}  // namespace
}  // namespace tributary

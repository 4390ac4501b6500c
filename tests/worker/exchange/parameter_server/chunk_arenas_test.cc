#include "worker/exchange/parameter_server/chunk_arenas.h"

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "common/os/shared_memory.h"
#include "gtest/gtest.h"
#include "proto/parameter_server.pb.h"

namespace tributary {
namespace {

constexpr int64_t kPagedElements = 4 * kPageBytes / sizeof(float);
constexpr int kPagedChunks = 3;

class ChunkArenasTest : public testing::Test {
 protected:
  ChunkArenasTest() {
    ParameterTable table;
    table.set_chunk_elements(kPagedElements);
    auto* parameter = table.add_parameter();
    parameter->set_name("a");
    parameter->add_shape(kPagedChunks * kPagedElements);
    parameter->set_group(DECAY);
    layout_ = std::make_unique<ArenaLayout>(*ArenaLayout::Create(table));
    arenas_.emplace(layout_.get());
  }

  // The number of the arena's pages that are in memory.
  static int64_t Pages(const Buffer& arena) {
    std::vector<unsigned char> pages(kPagedChunks * 4);
    EXPECT_EQ(mincore(arena.get(), pages.size() * kPageBytes, pages.data()), 0);
    return std::count_if(pages.begin(), pages.end(),
                         [](unsigned char page) { return page & 1; });
  }

  std::unique_ptr<ArenaLayout> layout_;
  std::optional<ChunkArenas> arenas_;
};

TEST_F(ChunkArenasTest, FreesTheMemoryOfAChunkWithItsLastReference) {
  const Buffer arena = arenas_->MakeArena();
  EXPECT_EQ(Pages(arena), 0);
  std::fill_n(arena.get(), kPagedChunks * kPagedElements, 1.0f);
  EXPECT_EQ(Pages(arena), 12);
  Buffer chunk = arenas_->ChunkOf(arena, 1);
  Buffer other = chunk;
  EXPECT_EQ(chunk.get(), arena.get());
  chunk.reset();
  EXPECT_EQ(Pages(arena), 12);
  other.reset();
  EXPECT_EQ(Pages(arena), 8);
  EXPECT_EQ(arena.get()[kPagedElements - 1], 1);
  EXPECT_EQ(arena.get()[kPagedElements], 0);
  EXPECT_EQ(arena.get()[2 * kPagedElements], 1);
}

TEST_F(ChunkArenasTest, WaitsForReferences) {
  Buffer chunk = arenas_->ChunkOf(arenas_->MakeArena(), 2);
  EXPECT_TRUE(arenas_->AwaitReleased(1, absl::ZeroDuration()));
  EXPECT_FALSE(arenas_->AwaitReleased(0, absl::ZeroDuration()));
  // The arena and the count outlive the object that made them.
  const ChunkArenas same = *arenas_;
  arenas_.reset();
  EXPECT_EQ(chunk.use_count(), 1);
  chunk.reset();
  EXPECT_TRUE(same.AwaitReleased(0, absl::ZeroDuration()));
}

}  // namespace
}  // namespace tributary

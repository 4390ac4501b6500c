#include "worker/exchange/all_reduce/chunk_routes.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kMicroBatches = 4;

WorkerChunks Chunks(int begin, int end,
                    const std::vector<std::pair<int, int>>& read) {
  std::vector<ChunkRange> ranges;
  for (const auto& [first, last] : read) {
    ranges.emplace_back().set_begin(first);
    ranges.back().set_end(last);
  }
  WorkerChunks chunks;
  chunks.begin = begin;
  chunks.end = end;
  chunks.read = ChunkRanges::Union(ranges);
  return chunks;
}

TEST(ChunkRoutesTest, MembersOfAWholeModelReduceChunksInTurn) {
  const auto routes = ChunkRoutes::Create(/*chunk_count=*/5, kMicroBatches,
                                          {{0, 2}, {2, 4}}, /*chunks=*/{});
  ASSERT_TRUE(routes.ok()) << routes.status();
  EXPECT_THAT(routes->NodesOf(1), ElementsAre(3));
  EXPECT_THAT(routes->OwnedBy(0), ElementsAre(0, 2, 4));
  EXPECT_THAT(routes->OwnedBy(1), ElementsAre(1, 3));
  EXPECT_EQ(routes->PlaceOf(3), 1);
  EXPECT_THAT(routes->ReadBy(1), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(routes->ContributorsOf(4), ElementsAre(0, 1));
  EXPECT_THAT(routes->SourcesOf(0), ElementsAre(0, 1));
}

// Replica 0 consists of members 0 to 2, one for each stage, and replica 1 of
// members 3, with the first two stages, and 4. Stage 1 begins in chunk 1, and
// also reads chunk 0. All parameters of stage 2 are in chunk 3.
TEST(ChunkRoutesTest, EachStageReducesItsOwnChunks) {
  const WorkerChunks first = Chunks(0, 2, {{0, 2}});
  const WorkerChunks second = Chunks(2, 4, {{1, 4}, {0, 1}});
  const WorkerChunks third = Chunks(4, 4, {{3, 4}});
  const WorkerChunks both = Chunks(0, 4, {{0, 4}});
  const auto routes = ChunkRoutes::Create(
      /*chunk_count=*/4, kMicroBatches,
      {{0, 1}, {0, 1}, {0, 1}, {1, 4}, {1, 4}},
      {first, second, third, both, third});
  ASSERT_TRUE(routes.ok()) << routes.status();
  EXPECT_THAT(routes->ContributorsOf(1), ElementsAre(0, 3));
  EXPECT_THAT(routes->ContributorsOf(2), ElementsAre(1, 3));
  EXPECT_THAT(routes->OwnedBy(0), ElementsAre(0));
  EXPECT_THAT(routes->OwnedBy(1), ElementsAre(2));
  EXPECT_THAT(routes->OwnedBy(3), ElementsAre(1, 3));
  EXPECT_THAT(routes->OwnedBy(4), IsEmpty());
  EXPECT_EQ(routes->PlaceOf(3), 1);
  EXPECT_THAT(routes->ReadBy(1), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(routes->ReadBy(2), ElementsAre(3));
  EXPECT_FALSE(routes->ContributesAny(2));
  // From one member of each replica.
  EXPECT_THAT(routes->SourcesOf(1), ElementsAre(1, 3));
  EXPECT_THAT(routes->SourcesOf(2), ElementsAre(0, 3));
  EXPECT_TRUE(routes->IsSource(3, 1));
  EXPECT_FALSE(routes->IsSource(0, 1));
}

TEST(ChunkRoutesTest, RefusesMicroBatchesWithoutAContributor) {
  for (const std::vector<LeafRange>& leaves : {std::vector<LeafRange>{},
                                               {{0, 3}},
                                               {{0, 2}, {3, 4}},
                                               {{0, 4}, {0, 4}},
                                               {{2, 4}, {0, 2}},
                                               {{0, 5}},
                                               {{-1, 4}},
                                               {{0, 4}, {4, 4}}}) {
    EXPECT_THAT(ChunkRoutes::Create(/*chunk_count=*/2, kMicroBatches, leaves,
                                    /*chunks=*/{})
                    .status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("do not cover 4 micro-batches")));
  }
  // Nobody contributes to chunk 1.
  EXPECT_THAT(
      ChunkRoutes::Create(/*chunk_count=*/2, kMicroBatches, {{0, 4}},
                          {Chunks(0, 1, {{0, 2}})})
          .status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("do not cover")));
}

TEST(ChunkRoutesTest, RefusesAContributorWithoutTheWeights) {
  EXPECT_THAT(ChunkRoutes::Create(/*chunk_count=*/2, kMicroBatches, {{0, 4}},
                                  {Chunks(0, 2, {{0, 1}})})
                  .status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("contributes to chunk 1")));
}

}  // namespace
}  // namespace tributary

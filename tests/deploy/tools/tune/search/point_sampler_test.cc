#include "deploy/tools/tune/search/point_sampler.h"

#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/tools/tune/search/search_file.h"
#include "deploy/tools/tune/search/search_space.h"
#include "deploy/tools/tune/search/sobol_sequence.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;

constexpr char kSpace[] = R"(
  parameter { path: "lr" number { low: 1e-4 high: 1e-1 log: true } }
  parameter { path: "drop" number { low: 0 high: 0.5 step: 0.1 } }
  parameter { path: "width" integer { low: 16 high: 512 log: true } }
  parameter { path: "batch" integer { low: 8 high: 64 step: 8 } }
  parameter { path: "rule" choice { value: "sgd" value: "adam" } }
  parameter { path: "momentum" number { low: 0.5 high: 0.9 }
              when { path: "rule" value: "sgd" } }
)";

SearchSpec SearchOf(const std::string& lines) {
  return *ParseSearch(absl::StrCat(kSpace, lines), "search");
}

class SamplerTest : public testing::TestWithParam<const char*> {};

TEST_P(SamplerTest, ProposesPointsOfTheSpaceAndFillsIt) {
  const SearchSpec search = SearchOf(GetParam());
  const SearchSpace space(search);
  const PointSampler sampler = *PointSampler::Create(search, &space);
  std::vector<std::set<double>> seen(space.size());
  double log_sum = 0;
  constexpr int kPoints = 2048;
  for (int n = 0; n < kPoints; ++n) {
    const SearchPoint point = sampler.Propose(n);
    ASSERT_TRUE(space.Contains(point)) << n;
    EXPECT_EQ(point, sampler.Propose(n));
    EXPECT_EQ(point[5].has_value(), *point[4] == 0);
    log_sum += std::log10(*point[0]);
    for (int i = 0; i < space.size(); ++i) {
      if (point[i].has_value()) seen[i].insert(*point[i]);
    }
  }
  EXPECT_EQ(seen[1].size(), 6u);
  EXPECT_EQ(seen[3].size(), 8u);
  EXPECT_EQ(seen[4].size(), 2u);
  EXPECT_EQ(*seen[2].begin(), 16);
  EXPECT_GT(*seen[2].rbegin(), 480);
  // The logarithms are uniformly distributed between -4 and -1; four standard
  // deviations of the mean of random ones are 0.077.
  EXPECT_NEAR(log_sum / kPoints, -2.5, 0.077);
}

TEST_P(SamplerTest, SeedsDecideThePoints) {
  const SearchSpec search = SearchOf(GetParam());
  const SearchSpec other = SearchOf(absl::StrCat(GetParam(), " seed: 2"));
  const SearchSpace space(search);
  EXPECT_NE(PointSampler::Create(search, &space)->Propose(3),
            PointSampler::Create(other, &space)->Propose(3));
}

INSTANTIATE_TEST_SUITE_P(Samplers, SamplerTest,
                         testing::Values("sampler { random {} }",
                                         "sampler { sobol {} }"));

TEST(GridTest, ListsEachCombinationOnce) {
  const SearchSpec search = SearchOf(R"(sampler { grid {} })");
  const SearchSpace space(search);
  // 5 rates, 6 dropouts, 497 widths, 8 batches, and 5 + 1 momenta.
  EXPECT_THAT(PointSampler::Create(search, &space),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(GridTest, HasNoValuesForConditionsThatAreNotSatisfied) {
  const SearchSpec search = *ParseSearch(R"(
    parameter { path: "lr" number { low: 1 high: 3 grid_points: 3 } }
    parameter { path: "rule" choice { value: "sgd" value: "adam" } }
    parameter { path: "momentum" number { low: 0.5 high: 0.9 grid_points: 2 }
                when { path: "rule" value: "sgd" } }
    sampler { grid {} })",
                                         "search");
  const SearchSpace space(search);
  const PointSampler sampler = *PointSampler::Create(search, &space);
  ASSERT_EQ(sampler.count(), 9);
  std::set<std::vector<std::string>> points;
  for (int n = 0; n < 9; ++n) {
    points.insert(space.Sets(sampler.Propose(n)));
  }
  EXPECT_EQ(points.size(), 9u);
  EXPECT_THAT(space.Sets(sampler.Propose(0)),
              ElementsAre("lr=1", "rule=sgd", "momentum=0.5"));
  EXPECT_THAT(space.Sets(sampler.Propose(5)), ElementsAre("lr=2", "rule=adam"));
  EXPECT_THAT(space.Sets(sampler.Propose(8)), ElementsAre("lr=3", "rule=adam"));
}

TEST(CompleteTest, KeepsTheGivenValues) {
  const SearchSpec search = SearchOf("");
  const SearchSpace space(search);
  const PointSampler sampler = *PointSampler::Create(search, &space);
  SearchPoint fixed(space.size());
  fixed[0] = 0.01;
  fixed[4] = 1;    // adam
  fixed[5] = 0.9;  // Not active.
  const SearchPoint point = sampler.Complete(7, fixed);
  EXPECT_TRUE(space.Contains(point));
  EXPECT_EQ(point[0], 0.01);
  EXPECT_EQ(point[4], 1);
  EXPECT_FALSE(point[5].has_value());
}

TEST(SpaceTest, ParsesTheTextsThatItWrites) {
  const SearchSpec search = SearchOf("sampler { random {} }");
  const SearchSpace space(search);
  const PointSampler sampler = *PointSampler::Create(search, &space);
  for (int n = 0; n < 100; ++n) {
    const SearchPoint point = sampler.Propose(n);
    for (int i = 0; i < space.size(); ++i) {
      if (!point[i].has_value()) continue;
      EXPECT_EQ(*space.ParseValue(i, space.ValueText(i, *point[i])), *point[i]);
    }
  }
}

TEST(SpaceTest, RefusesOtherValues) {
  const SearchSpec search = SearchOf("");
  const SearchSpace space(search);
  const struct {
    const char* path;
    const char* text;
  } cases[] = {{"lr", "1"},        {"lr", "x"},       {"drop", "0.15"},
               {"width", "15"},    {"width", "20.5"}, {"batch", "12"},
               {"rule", "rmsprop"}};
  for (const auto& c : cases) {
    EXPECT_THAT(space.ParseValue(space.Find(c.path), c.text),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         testing::HasSubstr(c.path)));
  }
}

// From scipy.stats.qmc.Sobol(21, scramble=False, bits=32).
TEST(SobolTest, HasTheValuesOfScipy) {
  const struct {
    uint32_t index;
    std::vector<uint32_t> coordinates;
  } points[] = {
      {1, std::vector<uint32_t>(21, 0x80000000u)},
      {7, {0x20000000u, 0xa0000000u, 0x60000000u, 0x20000000u, 0x20000000u,
           0x60000000u, 0xa0000000u, 0xa0000000u, 0xa0000000u, 0xe0000000u,
           0xa0000000u, 0x20000000u, 0xa0000000u, 0x60000000u, 0x20000000u,
           0x20000000u, 0x20000000u, 0x20000000u, 0xa0000000u, 0xe0000000u,
           0xe0000000u}},
      {100, {0x6a000000u, 0x42000000u, 0xc6000000u, 0xba000000u, 0xe2000000u,
             0xbe000000u, 0x06000000u, 0x7a000000u, 0xa2000000u, 0xb2000000u,
             0x76000000u, 0xae000000u, 0x7a000000u, 0xda000000u, 0x52000000u,
             0x7e000000u, 0xae000000u, 0xbe000000u, 0xd6000000u, 0x56000000u,
             0xc2000000u}},
      {1023, {0x00400000u, 0xc0c00000u, 0x9cc00000u, 0x25400000u, 0x2fc00000u,
              0x70400000u, 0x23c00000u, 0x9e400000u, 0x58400000u, 0xd9c00000u,
              0xadc00000u, 0x09400000u, 0x21400000u, 0xaa400000u, 0x5cc00000u,
              0x76c00000u, 0x50400000u, 0xe0400000u, 0x95c00000u, 0x51c00000u,
              0xddc00000u}}};
  for (const auto& point : points) {
    for (int i = 0; i < SobolSequence::kMostDimensions; ++i) {
      EXPECT_EQ(SobolSequence::Coordinate(point.index, i), point.coordinates[i])
          << "point " << point.index << ", dimension " << i;
    }
  }
}

}  // namespace
}  // namespace tributary

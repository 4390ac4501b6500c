#include "common/update/contribution_check.h"

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/update/aggregation/gradient_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

// "a" has elements 0 to 4 of chunk 0; "b" has all of chunk 1 and 2 elements of
// chunk 2.
ArenaLayout CheckedLayout() {
  ParameterTable table;
  table.set_chunk_elements(16);
  for (const auto& [name, size] :
       std::vector<std::pair<std::string, int64_t>>{{"a", 5}, {"b", 18}}) {
    ParameterTable::Parameter* parameter = table.add_parameter();
    parameter->set_name(name);
    parameter->add_shape(size);
    parameter->set_group(DECAY);
  }
  return *ArenaLayout::Create(table);
}

class ContributionCheckTest : public ::testing::Test {
 protected:
  // Checks a contribution of zeros with `value` at `element`.
  std::string Check(int chunk, int element, float value) {
    const auto values = std::make_shared<std::vector<float>>(16, 0.0f);
    (*values)[element] = value;
    NodeSum sum;
    sum.gradient =
        std::make_shared<GradientInMemory>(MemoryView{values->data(), values});
    return std::string(check_.Check(chunk, sum).message());
  }

  const ContributionCheck check_{CheckedLayout(), /*leaves=*/1, /*steps=*/1,
                                 std::nullopt};
};

TEST(ContributionCheckPaddingTest, RefusesNumbersInPaddingOfSeveralChunks) {
  ParameterTable table;
  table.set_chunk_elements(16);
  ParameterTable::Parameter* parameter = table.add_parameter();
  parameter->set_name("a");
  parameter->add_shape(16);
  parameter->set_group(DECAY);
  parameter->set_padding(20);
  const ContributionCheck check(*ArenaLayout::Create(table), /*leaves=*/1,
                                /*steps=*/1, std::nullopt);
  for (int chunk = 0; chunk < 3; ++chunk) {
    const auto values = std::make_shared<std::vector<float>>(16, 0.0f);
    values->back() = 1;
    NodeSum sum;
    sum.gradient =
        std::make_shared<GradientInMemory>(MemoryView{values->data(), values});
    const absl::Status status = check.Check(chunk, sum);
    if (chunk == 0) {
      EXPECT_TRUE(status.ok()) << status;
    } else {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                   HasSubstr("at element 15, in the gap")));
    }
  }
}

TEST(ContributionCheckCountTest, BoundsTheSampleCountsOfExternalData) {
  JobSpec job;
  job.mutable_data()->mutable_external()->set_units_per_sample(64);
  job.mutable_batch()->set_global(8);
  job.mutable_batch()->set_micro_batches(1);
  const ContributionCheck check(
      CheckedLayout(), /*leaves=*/1, /*steps=*/1,
      SampleCounts(job, /*steps=*/1, /*train_samples=*/20));
  const auto values = std::make_shared<std::vector<float>>(16, 0.0f);
  NodeSum sum;
  sum.gradient =
      std::make_shared<GradientInMemory>(MemoryView{values->data(), values});
  for (const int64_t count : {0, 17, 512}) {
    sum.sample_count = count;
    EXPECT_TRUE(check.Check(/*chunk=*/0, sum).ok()) << count;
  }
  sum.sample_count = 513;
  EXPECT_THAT(check.Check(/*chunk=*/0, sum),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("(weight) 513, expected from 0 to 512")));
}

TEST_F(ContributionCheckTest, AcceptsAnyNumberInParameters) {
  for (const float value : {1.0f, -1e30f, NAN, INFINITY}) {
    EXPECT_EQ(Check(/*chunk=*/0, /*element=*/4, value), "");
    EXPECT_EQ(Check(/*chunk=*/1, /*element=*/15, value), "");
    EXPECT_EQ(Check(/*chunk=*/2, /*element=*/1, value), "");
  }
}

TEST_F(ContributionCheckTest, RefusesNumbersInGaps) {
  EXPECT_EQ(Check(/*chunk=*/0, /*element=*/5, 2.5f),
            "contribution of step 0, chunk 0 has 2.5 at element 5, in the gap "
            "after parameter a, expected 0");
  EXPECT_THAT(Check(/*chunk=*/0, /*element=*/15, -1),
              HasSubstr("has -1 at element 15"));
  EXPECT_THAT(Check(/*chunk=*/2, /*element=*/2, INFINITY),
              HasSubstr("has inf at element 2"));
}

// A block of the encoding EIGHT_BIT with a NaN has NaN in all elements.
TEST_F(ContributionCheckTest, AcceptsNanInGaps) {
  EXPECT_EQ(Check(/*chunk=*/0, /*element=*/7, NAN), "");
}

}  // namespace
}  // namespace tributary

#include "common/update/consistency/consistency_policy.h"

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

// What each mode gets is seen in the tests of its policy.
TEST(ConsistencyPolicyTest, AnAllReduceHasNone) {
  JobSpec job;
  job.mutable_exchange()->mutable_all_reduce();
  EXPECT_THAT(
      ConsistencyPolicy::Create(job, /*steps=*/1, /*first_step=*/0).status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               testing::HasSubstr("exchange.all_reduce ")));
}

}  // namespace
}  // namespace tributary

#include "tests/faults/sample_ledger.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

// Epochs of two steps: samples 1 to 4 and sample 5.
constexpr char kFirstEpoch[] = "0 0 1 2\n0 1 3 4\n1 0 5\n1 1\n";

class SampleLedgerTest : public testing::Test {
 protected:
  std::string Check(const std::string& ledger, int64_t steps) {
    const std::string path = MakeTestFolder() + "/ledger";
    WriteWholeFile(path, ledger);
    return std::string(CheckSampleLedger(path, {steps, /*samples=*/5,
                                                /*global_batch=*/4,
                                                /*micro_batches=*/2})
                           .message());
  }
};

TEST_F(SampleLedgerTest, AcceptsMicroBatchesThatWereComputedAgain) {
  EXPECT_EQ(Check(std::string(kFirstEpoch) + "0 1 3 4\n", 2), "");
}

TEST_F(SampleLedgerTest, AcceptsAnEndInTheMiddleOfAnEpoch) {
  EXPECT_EQ(Check(std::string(kFirstEpoch) + "2 0 5 3\n2 1 1 2\n", 3), "");
}

TEST_F(SampleLedgerTest, IgnoresStepsThatWereNotApplied) {
  EXPECT_EQ(Check(std::string(kFirstEpoch) + "2 0 1 1\n", 2), "");
}

TEST_F(SampleLedgerTest, FindsOtherSamplesOfTheSameMicroBatch) {
  EXPECT_THAT(Check(std::string(kFirstEpoch) + "0 1 3 5\n", 2),
              HasSubstr("step 0, micro-batch 1: was computed"));
}

TEST_F(SampleLedgerTest, FindsASampleThatIsUsedTwice) {
  EXPECT_THAT(Check("0 0 1 2\n0 1 3 4\n1 0 1\n1 1\n", 2),
              HasSubstr("step 1, micro-batch 0: "));
  EXPECT_THAT(Check(std::string(kFirstEpoch) + "2 0 5 3\n2 1 3 2\n", 3),
              HasSubstr("step 2, micro-batch 1: "));
}

TEST_F(SampleLedgerTest, FindsSamplesThatAreLost) {
  EXPECT_THAT(Check("0 0 1 2\n0 1 3 4\n1 0\n1 1\n", 2),
              HasSubstr("ends with step 1 has 4 samples, expected 5"));
  EXPECT_THAT(Check("0 0 1 2\n1 0 5\n1 1\n", 2),
              HasSubstr("step 0, micro-batch 1: nobody"));
}

TEST_F(SampleLedgerTest, FindsSamplesThatAreNotOfTheData) {
  EXPECT_THAT(Check(std::string(kFirstEpoch) + "2 0 5 6\n2 1 1 2\n", 3),
              HasSubstr("the first epoch has not"));
  EXPECT_THAT(
      Check(std::string(kFirstEpoch) + "2 0 5 6\n2 1 1 2\n3 0 3\n3 1\n", 4),
      HasSubstr("ends with step 3 "));
}

}  // namespace
}  // namespace tributary

// Valid jobs, and changes that make them invalid, for tests of ValidateJob.
#ifndef TRIBUTARY_TESTS_COMMON_JOB_JOB_CASES_H_
#define TRIBUTARY_TESTS_COMMON_JOB_JOB_CASES_H_

#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace tributary {

// Return valid jobs that are not resolved. Each function is named after the
// kind of its model, except Regression, which returns an mlp that predicts a
// number.
JobSpec Mlp();
JobSpec Resnet();
JobSpec Cnn();
JobSpec Gpt();
JobSpec Bert();
JobSpec Regression();
JobSpec Synthetic();
JobSpec External();

// A change that makes a valid job invalid.
struct Case {
  JobSpec (*base)();
  // Changes in the form path=value, which SetField (common/job/job.h) applies
  // in this order.
  std::vector<std::string> changes;
  const char* message;  // Expected start of the error message.
};

// Returns the job of `c.base` with all changes of `c`. Fails the test if a
// change cannot be applied.
JobSpec Apply(const Case& c);

// Expects that ValidateJob returns InvalidArgument for Apply(c), with a message
// that starts with `c.message`.
void ExpectRefused(const Case& c);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_COMMON_JOB_JOB_CASES_H_

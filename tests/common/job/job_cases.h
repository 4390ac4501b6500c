// Valid jobs, and changes that make them invalid, for tests of ValidateJob.
#ifndef TRIBUTARY_TESTS_COMMON_JOB_JOB_CASES_H_
#define TRIBUTARY_TESTS_COMMON_JOB_JOB_CASES_H_

#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace tributary {

// Return valid jobs that are not resolved. Each function is named after the
// kind of its model, except Regression, which returns an mlp that predicts a
// number. Dlrm has the features C1 and C2 of table "wide", of dim 4, and a
// table "narrow" of dim 1.
JobSpec Mlp();
JobSpec Resnet();
JobSpec Cnn();
JobSpec Gpt();
JobSpec Bert();
JobSpec Dlrm();
JobSpec Regression();
JobSpec Synthetic();
JobSpec External();

// Returns the job of `base` with `changes`: assignments in the form path=value,
// which SetField (common/job/job.h) applies in this order, separated by "; ".
// Fails the test if an assignment cannot be applied.
JobSpec Apply(JobSpec (*base)(), const std::string& changes);

// Expects of each of `cases` that the job of `base` with these changes is
// valid, also when it is resolved.
void ExpectAccepted(JobSpec (*base)(), const std::vector<std::string>& cases);

// Changes that make a valid job invalid.
struct Case {
  JobSpec (*base)();
  std::string changes;
  // Expected start of the message: the field that the message names, and what
  // tells this error from others of the field.
  std::string message;
};

// Expects that ValidateJob returns InvalidArgument for each job.
void ExpectRefused(const std::vector<Case>& cases);

// Expects that each of `assignments` alone makes the job of `base` invalid, and
// that the message names its field.
void ExpectFieldsRefused(JobSpec (*base)(),
                         const std::vector<std::string>& assignments);

// The same, and that the message also names the value.
void ExpectValuesRefused(JobSpec (*base)(),
                         const std::vector<std::string>& assignments);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_COMMON_JOB_JOB_CASES_H_

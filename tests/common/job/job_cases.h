// Jobs to change, and what is to be said of the changes.
#ifndef TRIBUTARY_TESTS_COMMON_JOB_JOB_CASES_H_
#define TRIBUTARY_TESTS_COMMON_JOB_JOB_CASES_H_

#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace tributary {

// Good ones, of each kind.
JobSpec Mlp();
JobSpec Resnet();
JobSpec Cnn();
JobSpec Gpt();
JobSpec Regression();
JobSpec Synthetic();
JobSpec External();

struct Case {
  JobSpec (*base)();
  // Made by SetField, one after the other.
  std::vector<std::string> changes;
  const char* message;  // How the error begins.
};

// The job with its changes.
JobSpec Apply(const Case& c);

// ValidateJob says InvalidArgument, with the message.
void ExpectRefused(const Case& c);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_COMMON_JOB_JOB_CASES_H_

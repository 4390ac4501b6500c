// What one worker of a job does wrong, and what becomes of the job.
#ifndef TRIBUTARY_TESTS_FAULTS_MISDEEDS_H_
#define TRIBUTARY_TESTS_FAULTS_MISDEEDS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/lying_network.h"

namespace tributary {

// The kinds of jobs.
enum class JobKind {
  kSynchronous,
  kTwoServers,
  kReplicas,  // With two servers.
  kLocalSteps,
  kStale,
  kAsynchronous,
  kAllReduce,
};

// How the job must end.
enum class ExpectedEnd {
  // The honest workers compute the result; a line may name the other worker.
  kHonest,
  // The same, and a line names the worker.
  kNamed,
  // The job fails with an error that names the worker.
  kFails,
};

struct Misdeed {
  const char* name;
  // The kinds of jobs in which it is tried. In a synchronous job, it also
  // begins after some honest steps if `later` is true.
  std::vector<JobKind> kinds;
  bool later = false;
  ExpectedEnd end = ExpectedEnd::kNamed;
  // Makes the worker misbehave from this step on.
  std::function<Lies(int64_t from)> lies;
};

// Returns all misdeeds. `pieces` is the job's number of evaluation pieces.
std::vector<Misdeed> AllMisdeeds(int64_t pieces);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_FAULTS_MISDEEDS_H_

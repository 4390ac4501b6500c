// Compares a job with the one that a run was started with.
#ifndef TRIBUTARY_COMMON_JOB_JOB_CHANGES_H_
#define TRIBUTARY_COMMON_JOB_JOB_CHANGES_H_

#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace tributary {

struct JobChange {
  // Path of the field, see SetField: "optimizer.adamw.learning_rate". If a
  // different member of a oneof is set, the path of the enclosing message:
  // "optimizer".
  std::string field;
  // Values as in a job file, truncated if long; "none" for a field without one.
  std::string was;
  std::string is;
};

// Returns the fields that affect the result of training and differ between two
// resolved jobs, in the order of job.proto. Ignores the length of the run
// (steps, epochs), because a longer run continues a shorter one. Ignores fields
// that never affect a result: names, output, checkpoints, evaluation, recovery,
// transport, an all-reduce instead of mode synchronous, and chunk_bytes where
// it has no effect.
std::vector<JobChange> ResultChanges(const JobSpec& was, const JobSpec& is);

// Returns true if the jobs differ in length and the learning rate decays until
// the last step. The steps of the shorter job then used other learning rates
// than those of the longer one.
bool LengthChangesSchedule(const JobSpec& was, const JobSpec& is);

// Returns true if both jobs have the same length.
bool SameLength(const JobSpec& a, const JobSpec& b);

// Prints "seed was 1, is 2; steps was 10, is 20".
std::string PrintChanges(const std::vector<JobChange>& changes);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_JOB_CHANGES_H_

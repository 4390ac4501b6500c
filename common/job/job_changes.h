// Compares a job with the job that a run was started with.
#ifndef TRIBUTARY_COMMON_JOB_JOB_CHANGES_H_
#define TRIBUTARY_COMMON_JOB_JOB_CHANGES_H_

#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace tributary {

struct JobChange {
  // Path of the field, as for SetField: "optimizer.adamw.learning_rate". If the
  // jobs set different members of a oneof, the path of the enclosing message:
  // "optimizer".
  std::string field;
  // `was` is the old value and `is` the new value, each formatted as in a job
  // file and truncated if long. "none" if the field is not set and has no
  // default.
  std::string was;
  std::string is;
};

// Returns the fields that differ between the earlier job `was` and the new job
// `is` and that affect the result of training, in the order of job.proto. Both
// jobs must be results of ResolveJob. Ignores the length of the run (steps,
// epochs), because a longer run continues a shorter one. Ignores fields that
// never affect a result: name, output, checkpoint, evaluation, recovery,
// transport, and chunk_bytes where it has no effect. Also ignores whether the
// job uses mode synchronous or an all-reduce, because both compute the same
// result.
std::vector<JobChange> ResultChanges(const JobSpec& was, const JobSpec& is);

// Returns true if the jobs differ in length (steps or epochs) and the learning
// rate of the new job `is` decays until its last step. A step of the shorter
// job then uses a different learning rate from the same step of the longer job.
bool LengthChangesSchedule(const JobSpec& was, const JobSpec& is);

// Returns true if both jobs have the same length (steps or epochs).
bool SameLength(const JobSpec& a, const JobSpec& b);

// Returns true if both jobs have the same length and stop early in the same
// cases (see StopSpec).
bool SameEnd(const JobSpec& a, const JobSpec& b);

// Formats the changes for messages, for example as "seed was 1, is 2; steps was
// 10, is 20".
std::string PrintChanges(const std::vector<JobChange>& changes);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_JOB_CHANGES_H_

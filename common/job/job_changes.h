// How a job differs from the one that a run was begun with.
#ifndef TRIBUTARY_COMMON_JOB_JOB_CHANGES_H_
#define TRIBUTARY_COMMON_JOB_JOB_CHANGES_H_

#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace tributary {

struct JobChange {
  // Its path, see SetField: "optimizer.adamw.learning_rate". Where another
  // member of a oneof is set, that of the message they are in: "optimizer".
  std::string field;
  // Values as in a job file; "none" for a field without one. Long ones are cut.
  std::string was;
  std::string is;
};

// The fields that decide the result of training and differ between two
// resolved jobs, in the order of job.proto. Does not count the length of the
// run (steps, epochs), because a longer run is the same one, only longer, nor
// what never changes a result: names, output, checkpoints, evaluation,
// recovery, transport, an all-reduce in place of mode synchronous, and, where
// it decides nothing, chunk_bytes.
std::vector<JobChange> ResultChanges(const JobSpec& was, const JobSpec& is);

// The jobs differ in length and the learning rate falls until the last step:
// steps of the shorter one have used other rates than those of the longer one.
bool LengthChangesSchedule(const JobSpec& was, const JobSpec& is);

// Same length.
bool SameLength(const JobSpec& a, const JobSpec& b);

// "seed was 1, is 2; steps was 10, is 20".
std::string PrintChanges(const std::vector<JobChange>& changes);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_JOB_CHANGES_H_

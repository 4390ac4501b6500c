// Checks whether a process may take part in the job. The checks return
// FailedPrecondition unless a comment says otherwise. The message states the
// difference and what to do.
#ifndef TRIBUTARY_SERVER_MEMBERSHIP_PEER_CHECKS_H_
#define TRIBUTARY_SERVER_MEMBERSHIP_PEER_CHECKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/parameters/arena_layout.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Returns an identifier of the job: a digest of all its fields except `output`.
// Jobs that differ only in `output` have the same identifier.
std::string JobId(const JobSpec& job);

// Returns FailedPrecondition if a worker has a different job from the server.
// Both arguments are results of JobId. Returns OK if `worker` is empty, which
// means that the worker's job is unknown.
absl::Status CheckJob(const std::string& worker, const std::string& server);

// Returns FailedPrecondition if `version`, the protocol version of a process,
// differs from the coordinator's.
absl::Status CheckProtocol(int32_t version);

// Returns InvalidArgument if a time in the statistics of a process is NaN or
// infinite.
absl::Status CheckStatistics(const ProcessStatistics& statistics);

// Returns FailedPrecondition, naming the first difference, if `table`, a
// worker's model, differs from the job's model. Returns InvalidArgument if
// `table` itself is invalid.
absl::Status CheckModel(const ParameterTable& table, const ArenaLayout& job);

// Checks that a worker has the job's data. Returns InvalidArgument if not; the
// worker then exits with the code for wrong input files. `whose` names, for the
// error message, the workers that have the job's data (see
// StartQuorum::Decision).
absl::Status CheckData(const DataFacts& facts, const DataFacts& job,
                       const std::string& whose);

// Returns InvalidArgument, naming the job's field, if `facts` contradict
// data.external of the job. Returns OK if the job has no data.external.
absl::Status CheckExternalData(const DataFacts& facts, const JobSpec& job);

// Checks that there is at least one training sample, that the numbers of steps
// in `facts` are those that proto/DATA.md defines for the job and this number
// of samples, and that there are no evaluation pieces (parts of the held-out
// data) if evaluation is disabled. Otherwise returns InvalidArgument, stating
// the value and the expected value.
absl::Status CheckFacts(const DataFacts& facts, const JobSpec& job);

// Describes the data and the model in `ready` for messages, for example as "64
// training samples, 2 evaluation pieces, fingerprint 17, model 0123456789ab".
std::string DescribeReady(const Ready& ready);

// Describes the first difference between the model in `worker` and the model in
// `other`, for example as "parameter 1 is bias [3] DECAY, expected bias [2]
// DECAY". Returns an empty text if the models are equal or if one of them is
// invalid.
std::string DescribeModelDifference(const Ready& worker, const Ready& other);

// Returns the names of the optimizer state that servers keep for each weight
// (see Optimizer::slot_names). `job` must be valid.
std::vector<std::string> StateNames(const JobSpec& job);

// The parts of CheckResume that need no report of a worker. CheckState checks
// that the job's optimizer keeps the same state arrays as the checkpoint
// contains. CheckSteps checks that the job, which has `steps` steps, does not
// end before the checkpoint, and that it groups steps into the same rounds as
// the checkpoint's job. Both return InvalidArgument if the check fails.
absl::Status CheckState(const CheckpointManifest& manifest, const JobSpec& job);
absl::Status CheckSteps(const CheckpointManifest& manifest, const JobSpec& job,
                        int64_t steps);

// Checks that the job can resume from the checkpoint: the checkpoint's model
// equals the model in `ready`, and the checks of CheckState and CheckSteps
// pass. Returns InvalidArgument if the job cannot resume.
absl::Status CheckResume(const CheckpointManifest& manifest, const Ready& ready,
                         const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_MEMBERSHIP_PEER_CHECKS_H_

// Whether a process may take part in the job. FailedPrecondition, or what else
// is said below, tells what does not fit and what to do.
#ifndef TRIBUTARY_SERVER_MEMBERSHIP_PEER_CHECKS_H_
#define TRIBUTARY_SERVER_MEMBERSHIP_PEER_CHECKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/parameters/parameter_table.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// What tells a job from others: equal jobs have equal results.
std::string JobId(const JobSpec& job);

// A worker's job is the server's; an empty `worker` is not known. Both are
// JobIds.
absl::Status CheckJob(const std::string& worker, const std::string& server);

// It speaks the coordinator's protocol.
absl::Status CheckProtocol(int32_t version);

// A worker's model is the job's. InvalidArgument for a table that is none.
absl::Status CheckModel(const ParameterTable& table, const ArenaLayout& job);

// A worker's data are the job's, which are those of `whose` worker, as
// StartQuorum::Decision says. InvalidArgument if not: the worker's exit code
// tells that it needs other files.
absl::Status CheckData(const DataFacts& facts, const DataFacts& job,
                       const std::string& whose);

// The facts follow from the job and the number of samples, as proto/DATA.md
// defines them. InvalidArgument, with the value and what is expected, if not.
absl::Status CheckFacts(const DataFacts& facts, const JobSpec& job);

// "64 training samples, fingerprint 17, ... model 0123456789ab".
std::string DescribeReady(const Ready& ready);

// What servers keep for each weight, see Optimizer::slot_names. `job` is valid.
std::vector<std::string> StateNames(const JobSpec& job);

// Parts of the next one, which need no worker: the optimizer keeps the same
// state; the job, of `steps` steps, has the checkpoint's step. InvalidArgument
// if not.
absl::Status CheckState(const CheckpointManifest& manifest, const JobSpec& job);
absl::Status CheckSteps(const CheckpointManifest& manifest, const JobSpec& job,
                        int64_t steps);

// The job can go on from the checkpoint: the model is the one of the worker
// that brings `ready`, the optimizer keeps the same state, and the job is not
// shorter. InvalidArgument if not.
absl::Status CheckResume(const CheckpointManifest& manifest, const Ready& ready,
                         const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_MEMBERSHIP_PEER_CHECKS_H_

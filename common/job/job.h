// Everything about a job file: reading, overriding, checking, printing. See
// proto/job.proto for what the fields mean.
//
// All functions are pure but for LoadJob, and may be called from any thread.
// All errors are InvalidArgument (exit code 2): a person must change what they
// wrote, and the message says where and how.
#ifndef TRIBUTARY_COMMON_JOB_JOB_H_
#define TRIBUTARY_COMMON_JOB_JOB_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace tributary {

// Reads protobuf text. Errors begin with `file_name`, line and column:
// "job.textproto:12:5: ...". Does not validate: overrides may come first.
absl::StatusOr<JobSpec> ParseJob(absl::string_view text,
                                 absl::string_view file_name);

// ParseJob of a file's contents.
absl::StatusOr<JobSpec> LoadJob(const std::string& path);

// Sets any field by its path, or leaves `job` as it was and says why not.
//   optimizer.adamw.learning_rate=0.001   a member of a oneof replaces others
//   model.mlp.hidden=[64, 32]             or 64,32: a whole list
//   model.mlp.hidden[0]=64                one element; the index after the last
//                                         appends
//   model.cnn.block[1].channels=32
//   model.gpt={layers: 2 heads: 2}        a message as protobuf text, replaced
//   schedule.decay=cosine                 enum names in any case
//   evaluation.disabled=true              also false, 1, 0, yes, no, on, off
absl::Status SetField(JobSpec* job, absl::string_view path_and_value);

// Checks each field and their combinations; every message begins with the path
// of a field: "batch.micro_batches: 3 is not a power of two". What passes has
// sizes whose products do not overflow int64. Takes a job before or after
// ResolveJob.
absl::Status ValidateJob(const JobSpec& job);

// What batch.micro_batches says when the number is still to be found, by what
// fits into the workers' devices. No process can run such a job.
inline constexpr int64_t kFindMicroBatches = -1;
inline constexpr int64_t kMaxMicroBatches = 4096;

// Evaluation keeps nothing for backward, so its batches may be larger than a
// micro-batch; smaller ones waste the hardware. Samples, by default.
inline constexpr int64_t kLeastEvaluationBatch = 16;

// Fills in the defaults that depend on other fields: name, micro_batches,
// exchange, evaluation.batch, padding. `job` must be valid; resolving twice
// changes nothing. kFindMicroBatches stays, and so does what depends on it.
JobSpec ResolveJob(JobSpec job);

// "mlp", "cnn", "resnet", "gpt" or "synthetic"; empty if no model is set.
std::string ModelKind(const JobSpec& job);

// Of the kind of exchange that is set.
int64_t ChunkBytes(const ExchangeSpec& exchange);

// The job as protobuf text that ParseJob reads back to the same job.
std::string PrintJob(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_JOB_H_

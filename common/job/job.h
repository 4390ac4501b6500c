// Reads, overrides, validates and prints job files. proto/job.proto documents
// the fields.
//
// All functions are thread-safe. The results of all except LoadJob depend only
// on the arguments. All errors are InvalidArgument (exit code 2): the user must
// change the job or the command line. The message states which part to change,
// and how.
#ifndef TRIBUTARY_COMMON_JOB_JOB_H_
#define TRIBUTARY_COMMON_JOB_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/job.pb.h"

namespace tributary {

// Parses protobuf text or, if it begins with a brace, JSON with the names of
// the .proto file. Returns InvalidArgument if `text` is malformed; the
// message begins with `file_name` and, if the error has a position, line and
// column: "job.textproto:12:5: ...". Does not validate the job, so that
// overrides can be applied first.
absl::StatusOr<JobSpec> ParseJob(absl::string_view text,
                                 absl::string_view file_name);

// Reads and parses a job file. Returns InvalidArgument if the file cannot be
// read or parsed; the message begins with the path.
absl::StatusOr<JobSpec> LoadJob(const std::string& path);

// Sets any field, given as path=value. Returns InvalidArgument for an unknown
// path or an invalid value, and then leaves `job` unchanged. Examples:
//   optimizer.adamw.learning_rate=0.001   clears the oneof's other members
//   model.mlp.hidden=[64, 32]             a whole list; also 64,32
//   model.mlp.hidden[0]=64                one element; an index equal to the
//                                         list's length appends
//   model.cnn.block[1].channels=32
//   model.gpt={layers: 2 heads: 2}        replaces a message by protobuf text
//   schedule.decay=cosine                 enum names in any case
//   evaluation.disabled=true              also false, 1, 0, yes, no, on, off
absl::Status SetField(JobSpec* job, absl::string_view path_and_value);

// Returns InvalidArgument if a field or a combination of fields is invalid. The
// message begins with the path of a field: "batch.micro_batches: 3 is not a
// power of two". In a valid job, the product of two sizes, or of a size and
// batch.global, does not overflow int64; other products may. Accepts jobs
// before and after ResolveJob.
absl::Status ValidateJob(const JobSpec& job);

// Value of batch.micro_batches that asks the launcher to choose the number, so
// that a micro-batch fits into the memory of the workers' devices. The launcher
// replaces this value before it starts the processes, which reject a job that
// contains it.
inline constexpr int64_t kFindMicroBatches = -1;
inline constexpr int64_t kMaxMicroBatches = 4096;

// The smallest default of evaluation.batch, in samples. Evaluation keeps no
// activations for backward, so its batches may be larger than a micro-batch.
// Batches smaller than this default use the hardware poorly.
inline constexpr int64_t kLeastEvaluationBatch = 16;

// Returns `job` with values for the unset fields whose defaults depend on other
// fields: name, batch.micro_batches, exchange, evaluation.batch, the sizes of
// model.gpt.preset and model.resnet.preset, the padding of a CNN's blocks, and
// the initial values of tables and the names of features in `sparse`.
// `job` must be valid. Idempotent. If batch.micro_batches is kFindMicroBatches,
// leaves it and evaluation.batch unchanged.
JobSpec ResolveJob(JobSpec job);

// Returns the name of the job's kind of model, which is the name of the field
// that is set in ModelSpec, such as "mlp". Returns an empty string if no model
// is set.
std::string ModelKind(const JobSpec& job);

// Returns the names of all kinds of models.
std::vector<std::string> ModelKinds();

// Returns the model's kind for display, such as "mlp". For an external model,
// returns "external" followed by the model's name.
std::string ModelTitle(const JobSpec& job);

// Returns true if the model predicts tokens: model.gpt, and the masked language
// model of model.bert.
bool PredictsTokens(const JobSpec& job);

// Returns the largest number that one sample may add to the sample count, by
// which gradient sums are divided. This is the number of tokens of a sequence
// if the model predicts tokens, data.external.units_per_sample for any other
// model with external data, and 1 in all other jobs.
int64_t UnitsPerSample(const JobSpec& job);

// Returns true if a sample may add less than UnitsPerSample(job) to the sample
// count. This is so if data.external is set, or if model.bert predicts only
// some of the tokens.
bool SampleCountsVary(const JobSpec& job);

// Returns the chunk_bytes of the kind of exchange that is set in `exchange`.
int64_t ChunkBytes(const ExchangeSpec& exchange);

// Returns the time between two checkpoints (see CheckpointSpec), or
// absl::InfiniteDuration() if no checkpoint is due by time.
absl::Duration CheckpointInterval(const JobSpec& job);

// Returns true if the job takes checkpoints, by steps or by time.
bool TakesCheckpoints(const JobSpec& job);

// Returns true if a worker computes only some layers of the model, or only some
// at a time. It then uses one thread.
bool ComputesInParts(const JobSpec& job);
// Returns the job for a process that computes the whole model.
JobSpec JobOfWholeModel(JobSpec job);

// Returns the job as protobuf text, from which ParseJob restores the same job.
std::string PrintJob(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_JOB_H_

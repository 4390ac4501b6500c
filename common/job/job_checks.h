// Limits and checks that apply to many fields of a job.
#ifndef TRIBUTARY_COMMON_JOB_JOB_CHECKS_H_
#define TRIBUTARY_COMMON_JOB_JOB_CHECKS_H_

#include <google/protobuf/message.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tributary {

// Largest number of steps of a job. Like the limits on sizes, it is far above
// practical values. The limits on sizes keep the product of two sizes, or of a
// size and batch.global, times eight bytes, far below 2^63. The product of a
// size and kMaxSteps can exceed 2^63.
inline constexpr int64_t kMaxSteps = int64_t{1} << 40;
// Largest width of a layer, and largest size of a sample in one dimension.
inline constexpr int64_t kMaxWidth = int64_t{1} << 20;
// Largest number of transformer blocks: a block takes about twelve layers of
// the graph, and a network has at most 4,096.
inline constexpr int64_t kMaxTransformerBlocks = 256;
// Longest context of a transformer: the scores of one head have this size
// squared.
inline constexpr int64_t kMaxContext = 65536;
// Largest number of samples of a batch.
inline constexpr int64_t kMaxBatch = int64_t{1} << 24;
// Largest number of classes of a data set.
inline constexpr int64_t kMaxClasses = int64_t{1} << 20;
// Longest name of a job, a model, a data set or a unit.
inline constexpr size_t kMaxNameBytes = 100;

// Checks the requirements that apply to every field of the message and of
// nested messages: floating-point numbers are finite, enums that are set are
// not 0 (unspecified), and texts, except delimiters and separators, contain no
// control characters, because they become part of file names and log lines.
// Returns InvalidArgument, naming the
// field, if one is violated. `prefix` is prepended to the field's name in the
// message.
absl::Status ValidateValues(const google::protobuf::Message& message,
                            const std::string& prefix);

// Returns InvalidArgument, naming the field `path`, unless `name` can be the
// name of something that a program registers. Names become part of file names,
// and of commands.
absl::Status ValidateExternalName(absl::string_view path,
                                  const std::string& name);
// Returns InvalidArgument, naming the field `path`, unless `config` is a JSON
// object.
absl::Status ValidateExternalConfig(absl::string_view path,
                                    const std::string& config);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_JOB_CHECKS_H_

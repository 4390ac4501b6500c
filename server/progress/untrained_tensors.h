// The tensors of the final model that are no trained parameters.
#ifndef TRIBUTARY_SERVER_PROGRESS_UNTRAINED_TENSORS_H_
#define TRIBUTARY_SERVER_PROGRESS_UNTRAINED_TENSORS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/limits.h"
#include "common/parameters/untrained_tensor.h"
#include "common/tensor_io/safetensors_file.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Puts together the frozen parameters and buffers of a model from the parts
// that a worker sends at the end of a job. Keeps them in memory, whose size
// `limit` bounds. Not thread-safe.
class UntrainedTensors {
 public:
  explicit UntrainedTensors(int64_t limit = kMaxUntrainedBytes)
      : limit_(limit) {}

  // Adds the next part. Returns InvalidArgument for a part that the format of
  // the file does not allow, whose tensor has too many or too few bytes, or
  // that follows the last part, and ResourceExhausted if there are more bytes
  // than `limit`; the tensors are incomplete for ever then.
  absl::Status Add(const UntrainedTensorPart& part);
  // Drops all parts, because the worker that sent them was lost.
  void Clear();
  // Returns true if the last part was added.
  bool complete() const { return complete_; }
  // Returns the tensors, which point into this object; none until complete().
  std::vector<NamedTensor> tensors() const;

 private:
  absl::Status Begin(const UntrainedTensorPart& part);
  // Returns InvalidArgument unless all bytes of the newest tensor were added.
  absl::Status CheckWhole() const;

  const int64_t limit_;
  int64_t bytes_ = 0;  // Of all tensors that have begun.
  bool complete_ = false;
  std::vector<UntrainedTensor> tensors_;
  int64_t expected_ = 0;  // Bytes of the newest tensor.
  std::set<std::string> names_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROGRESS_UNTRAINED_TENSORS_H_

// What the workers of a pipeline send to each other.
#ifndef TRIBUTARY_WORKER_EXCHANGE_STAGES_TRANSFER_H_
#define TRIBUTARY_WORKER_EXCHANGE_STAGES_TRANSFER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/pipeline.pb.h"

namespace tributary {

// Identifies a transfer: the activations, or a gradient, of one micro-batch at
// one boundary between stages. The bits of a transfer depend only on its key,
// not on the worker that computes it. See StageTransfer in proto/pipeline.proto
// for the fields.
struct TransferKey {
  int64_t step = 0;
  int32_t micro_batch = 0;
  int32_t boundary = 0;
  StageTransfer::Kind kind = StageTransfer::KIND_UNSPECIFIED;
};

inline bool operator<(const TransferKey& a, const TransferKey& b) {
  return std::tie(a.step, a.micro_batch, a.boundary, a.kind) <
         std::tie(b.step, b.micro_batch, b.boundary, b.kind);
}
inline bool operator==(const TransferKey& a, const TransferKey& b) {
  return std::tie(a.step, a.micro_batch, a.boundary, a.kind) ==
         std::tie(b.step, b.micro_batch, b.boundary, b.kind);
}

// Returns the step with whose end nobody needs the transfer any more: its own
// step. A worker may evaluate version v of the weights until it has version
// v + 2, so that step v + 1 ends the evaluation.
inline int64_t LastStepOf(const TransferKey& key) {
  return key.kind == StageTransfer::EVALUATION ? key.step + 1 : key.step;
}

// Returns a text for messages, such as "ACTIVATION of step 7, micro-batch 2,
// boundary 0".
std::string DescribeTransfer(const TransferKey& key);

// Return what the trace calls waiting for a transfer, and sending it.
const char* WaitName(StageTransfer::Kind kind);
const char* SendName(StageTransfer::Kind kind);

// Numbers that travel with a transfer.
struct TransferScalars {
  int64_t sample_count = 0;  // Number of samples (text: tokens).
  double loss_sum = 0;       // Sum of the losses of these samples.
};

// A transfer that has arrived. Releasing `owner` returns the memory to the
// sender, which may then reuse it; a receiver that keeps transfers makes the
// sender wait.
struct ReceivedTransfer {
  TransferScalars scalars;
  // The bytes, aligned to 64 bytes. Valid while `owner` is held.
  const char* data = nullptr;
  int64_t bytes = 0;
  std::shared_ptr<const void> owner;
};

// Returns Aborted if nobody needs a transfer any more: `epoch`, the number of
// the assignment that it belongs to, is older than `newest`, or LastStepOf(key)
// is at most `ended_step`.
absl::Status CheckIsNeeded(const TransferKey& key, int64_t epoch,
                           int64_t newest, int64_t ended_step);

// Returns the total size of `parts` in bytes.
int64_t TotalBytes(absl::Span<const absl::string_view> parts);
// Copies `parts`, one after the other, to `to`.
void Gather(absl::Span<const absl::string_view> parts, char* to);
// Copies the bytes of a transfer to `parts`, one after the other. Returns
// InvalidArgument if the total size of `parts` is not that of the transfer.
absl::Status Scatter(const ReceivedTransfer& transfer,
                     absl::Span<const absl::Span<char>> parts);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_STAGES_TRANSFER_H_

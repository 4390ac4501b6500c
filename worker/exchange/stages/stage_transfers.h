// How a worker of a pipeline reaches the workers of other stages.
#ifndef TRIBUTARY_WORKER_EXCHANGE_STAGES_STAGE_TRANSFERS_H_
#define TRIBUTARY_WORKER_EXCHANGE_STAGES_STAGE_TRANSFERS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/exchange/stages/transfer.h"

namespace tributary {

// Sends transfers to, and receives them from, the worker that computes a stage
// in an epoch (an assignment). Thread-safe. Both methods block; they return
// Aborted if the epoch is over, or a worker of the pipeline was lost, so that a
// new epoch will begin; other errors end the worker's part in the job.
class StageTransfers {
 public:
  virtual ~StageTransfers() = default;

  // See StageLink::Send. `stage` is the receiver's.
  virtual absl::Status Send(int64_t epoch, int stage, const TransferKey& key,
                            const TransferScalars& scalars,
                            absl::Span<const absl::string_view> parts) = 0;
  // Ends a step, of which this worker needs and sends nothing more, until the
  // next epoch. No effect if an epoch after `epoch` has begun.
  virtual void EndStep(int64_t epoch, int64_t step) = 0;
  // See TransferInbox::Receive. `stage` is the sender's.
  virtual absl::StatusOr<ReceivedTransfer> Receive(int64_t epoch, int stage,
                                                   const TransferKey& key) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_STAGES_STAGE_TRANSFERS_H_

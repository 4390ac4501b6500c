// What a worker's stages of a pipeline exchange with those of other workers.
#ifndef TRIBUTARY_WORKER_TRAINING_STAGES_STAGE_MESSAGES_H_
#define TRIBUTARY_WORKER_TRAINING_STAGES_STAGE_MESSAGES_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/exchange/stages/transfer.h"
#include "worker/state/work_state.h"
#include "worker/training/stages/stage_part.h"
#include "worker/training/threads/compute_thread.h"

namespace tributary {

// Sends and receives the transfers of a worker's stages. The methods block, and
// return the errors of StageTransfers. Used by the compute thread; other
// threads may call Receive and ReceivePart, too.
class StageMessages {
 public:
  // A micro-batch, or a piece of the held-out data.
  struct Item {
    int transfer = 0;  // Its number among the transfers of the task.
    int64_t sample_count = 0;
    double loss_sum = 0;
  };

  // The arguments must outlive this object. `compute` traces what is sent.
  StageMessages(const StagePart* part, ComputeThread* compute);

  // The numbers, among StageSplit::parts, of the parts of gradients that come
  // from other workers.
  const std::vector<int>& received_parts() const { return received_parts_; }

  // Receives item number `transfer` from the worker of `stage`. Returns
  // InvalidArgument unless it has `bytes` bytes.
  absl::StatusOr<ReceivedTransfer> Receive(const Task& task, int stage,
                                           int transfer, int boundary,
                                           StageTransfer::Kind kind,
                                           int64_t bytes) const;
  absl::Status Send(const Task& task, int stage, const Item& item, int boundary,
                    StageTransfer::Kind kind,
                    const std::vector<absl::string_view>& parts);

  // Receives part number `part` of a micro-batch's gradient, which a later
  // worker has computed, and writes it to the arena `gradients`.
  absl::Status ReceivePart(const Task& task, int part, const Item& item,
                           float* gradients) const;
  // Sends the parts of the arena `gradients` that earlier workers complete.
  absl::Status SendParts(const Task& task, const Item& item,
                         const float* gradients);
  // Receives the weights that local steps of a micro-batch have changed and
  // that other workers update. Calls `replace` for each range of them.
  absl::Status ReceiveWeights(
      const Task& task, const Item& item,
      const std::function<void(int64_t begin, absl::Span<const float> values)>&
          replace);
  // Sends the weights, of the arena `weights`, that other workers read.
  absl::Status SendWeights(const Task& task, const Item& item,
                           const float* weights);

 private:
  const StagePart& part_;
  ComputeThread* const compute_;
  std::vector<int> received_parts_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_STAGES_STAGE_MESSAGES_H_

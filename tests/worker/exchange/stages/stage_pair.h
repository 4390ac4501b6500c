// A sender and a receiver of transfers, connected by any transport.
#ifndef TRIBUTARY_TESTS_WORKER_EXCHANGE_STAGES_STAGE_PAIR_H_
#define TRIBUTARY_TESTS_WORKER_EXCHANGE_STAGES_STAGE_PAIR_H_

#include <cstdint>
#include <memory>

#include "worker/exchange/stages/stage_link.h"
#include "worker/exchange/stages/transfer_inbox.h"
#include "worker/exchange/stages/transfer_plan.h"

namespace tributary {

class StagePair {
 public:
  // The sender's incarnation.
  static constexpr int64_t kSender = 7;

  virtual ~StagePair() = default;
  virtual StageLink* link() = 0;
  virtual TransferInbox* inbox() = 0;
  // What happens when the process of one of them ends.
  virtual void LoseSender() = 0;
  virtual void LoseReceiver() = 0;
};

// A transport, as a parameter of the tests. `connect` returns a pair whose
// workers are in epoch 1.
struct StageTransport {
  const char* name;
  std::unique_ptr<StagePair> (*connect)(const TransferPlan& plan);
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_EXCHANGE_STAGES_STAGE_PAIR_H_

// Transfers within one process.
#ifndef TRIBUTARY_WORKER_EXCHANGE_STAGES_LOCAL_STAGE_LINK_H_
#define TRIBUTARY_WORKER_EXCHANGE_STAGES_LOCAL_STAGE_LINK_H_

#include <cstdint>
#include <memory>

#include "worker/exchange/stages/slot_buffers.h"
#include "worker/exchange/stages/stage_link.h"
#include "worker/exchange/stages/transfer_inbox.h"

namespace tributary {

// A link to an inbox of this process: of a worker that computes two neighboring
// stages and sends to itself, or of another worker of a test. Thread-safe, like
// StageLink.
class LocalStageLink : public StageLink {
 public:
  // A link from the worker with the incarnation `sender`. `plan` and `inbox`
  // must outlive the link; `plan` must also outlive its transfers.
  LocalStageLink(const TransferPlan* plan, int64_t sender,
                 TransferInbox* inbox);
  // Ends the connection. Transfers that were sent stay in the inbox.
  ~LocalStageLink() override;

 private:
  void Transmit(const Outgoing& outgoing) override;

  const int64_t sender_;
  TransferInbox* const inbox_;
  const int64_t connection_;
  // Shared with the transfers in the inbox.
  const std::shared_ptr<SlotBuffers> buffers_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_STAGES_LOCAL_STAGE_LINK_H_

#include "worker/exchange/stages/local_stage_link.h"

#include <utility>

namespace tributary {

LocalStageLink::LocalStageLink(const TransferPlan* plan, int64_t sender,
                               TransferInbox* inbox)
    : StageLink(plan),
      sender_(sender),
      inbox_(inbox),
      connection_(inbox->Connect(sender)),
      buffers_(std::make_shared<SlotBuffers>(plan)) {}

LocalStageLink::~LocalStageLink() {
  inbox_->Disconnect(sender_, connection_, absl::OkStatus());
}

void LocalStageLink::Transmit(const Outgoing& outgoing) {
  char* const to = buffers_->At(outgoing.route, outgoing.slot);
  Gather(outgoing.parts, to);
  ReceivedTransfer transfer;
  transfer.scalars = outgoing.scalars;
  transfer.data = to;
  transfer.bytes = outgoing.bytes;
  transfer.owner = std::shared_ptr<const void>(
      to, [slots = slots(), buffers = buffers_, route = outgoing.route,
           slot = outgoing.slot](const void*) { slots->Release(route, slot); });
  inbox_->Deliver(sender_, outgoing.epoch, outgoing.key, std::move(transfer));
}

}  // namespace tributary

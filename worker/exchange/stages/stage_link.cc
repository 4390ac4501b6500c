#include "worker/exchange/stages/stage_link.h"

#include "common/base/status_macros.h"

namespace tributary {

absl::Status StageLink::Send(int64_t epoch, const TransferKey& key,
                             const TransferScalars& scalars,
                             absl::Span<const absl::string_view> parts) {
  Outgoing outgoing;
  outgoing.bytes = TotalBytes(parts);
  TRIBUTARY_ASSIGN_OR_RETURN(outgoing.route,
                             plan_->RouteOf(key, outgoing.bytes));
  TRIBUTARY_ASSIGN_OR_RETURN(outgoing.slot,
                             slots_->Acquire(outgoing.route, epoch, key));
  outgoing.epoch = epoch;
  outgoing.key = key;
  outgoing.scalars = scalars;
  outgoing.parts = parts;
  Transmit(outgoing);
  return absl::OkStatus();
}

}  // namespace tributary

#include "server/enlistment.h"

#include "common/transport/channel.h"

namespace tributary {

void Enlistment::Begin(Rendezvous::Stub* stub, int shard,
                       const std::string& address) {
  stub->async()->Enlistment(context(), this);
  ServerReport report;
  report.mutable_enlist()->set_protocol_version(kProtocolVersion);
  report.mutable_enlist()->set_shard(shard);
  report.mutable_enlist()->set_address(address);
  Start();
  Send(report);
}

bool Enlistment::finished() const {
  absl::MutexLock lock(&mu_);
  return finished_;
}

bool Enlistment::OnMessage(ServerOrder* order) {
  if (order->has_finish()) {
    absl::MutexLock lock(&mu_);
    finished_ = true;
  }
  if (!handle_(*order).ok()) Cancel();
  return true;
}

}  // namespace tributary

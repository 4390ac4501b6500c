#include "server/service/enlistment.h"

namespace tributary {

void Enlistment::Begin(Rendezvous::Stub* stub, const Enlist& enlist) {
  stub->async()->Enlistment(context(), this);
  ServerReport report;
  *report.mutable_enlist() = enlist;
  Start();
  Send(report);
}

bool Enlistment::finished() const {
  absl::MutexLock lock(&mu_);
  return finished_;
}

bool Enlistment::stopped() const {
  absl::MutexLock lock(&mu_);
  return stopped_;
}

bool Enlistment::OnMessage(ServerOrder* order) {
  if (order->has_finish()) {
    absl::MutexLock lock(&mu_);
    finished_ = true;
    stopped_ = order->finish().stopped();
  }
  if (!handle_(*order).ok()) Cancel();
  return true;
}

}  // namespace tributary

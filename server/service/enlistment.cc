#include "server/service/enlistment.h"

namespace tributary {

void Enlistment::Begin(std::unique_ptr<EnlistmentStream> stream,
                       const Enlist& enlist) {
  stream_ = std::move(stream);
  stream_->Start(this);
  ServerReport report;
  *report.mutable_enlist() = enlist;
  stream_->Send(report);
}

bool Enlistment::finished() const {
  absl::MutexLock lock(&mu_);
  return finished_;
}

bool Enlistment::stopped() const {
  absl::MutexLock lock(&mu_);
  return stopped_;
}

bool Enlistment::OnMessage(const ServerOrder& order, ReceivedPayload) {
  if (order.has_finish()) {
    absl::MutexLock lock(&mu_);
    finished_ = true;
    stopped_ = order.finish().stopped();
  }
  if (!handle_(order).ok()) stream_->Cancel();
  return true;
}

}  // namespace tributary

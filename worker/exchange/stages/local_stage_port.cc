#include "worker/exchange/stages/local_stage_port.h"

#include "common/stream/local_call.h"

namespace tributary {

void LocalStagePort::Serve(const StageReceiver::Worker& worker) {
  absl::MutexLock lock(&mu_);
  worker_ = worker;
}

std::unique_ptr<StageStream> LocalStagePort::Open(
    const std::shared_ptr<LocalStagePort>& port) {
  return LocalCall<StageMessage, StageReply>::Open(
      port->calls_, [port](ServerStream<StageReply>* stream) {
        absl::MutexLock lock(&port->mu_);
        return std::make_unique<StageReceiver>(port->worker_, stream);
      });
}

}  // namespace tributary

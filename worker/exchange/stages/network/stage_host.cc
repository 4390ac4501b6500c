#include "worker/exchange/stages/network/stage_host.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/memory/memory.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/transport/grpc_server_stream.h"
#include "common/transport/live_calls.h"
#include "proto/pipeline.grpc.pb.h"

namespace tributary {

class StageHost::Service final
    : public tributary::StageExchange::WithRawCallbackMethod_Transfer<
          tributary::StageExchange::Service> {
 public:
  void Serve(const StageReceiver::Worker& worker) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    worker_ = worker;
  }
  // Waits until no call uses the worker's objects. Call it after the server's
  // shutdown.
  void AwaitIdle() { calls_->AwaitNone(); }

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Transfer(
      grpc::CallbackServerContext*) override ABSL_LOCKS_EXCLUDED(mu_) {
    StageReceiver::Worker worker;
    {
      absl::MutexLock lock(&mu_);
      worker = worker_;
    }
    auto* stream = new GrpcServerStream<StageMessage, StageReply>(calls_);
    stream->Start(std::make_unique<StageReceiver>(worker, stream),
                  kDefaultLimits.handshake_timeout);
    return stream;
  }

 private:
  const std::shared_ptr<LiveCalls> calls_ = std::make_shared<LiveCalls>();
  absl::Mutex mu_;
  StageReceiver::Worker worker_ ABSL_GUARDED_BY(mu_);
};

StageHost::StageHost()
    : local_(MakeLocalAddress()), service_(std::make_unique<Service>()) {}

absl::StatusOr<std::unique_ptr<StageHost>> StageHost::Start(
    const Options& options) {
  auto host = absl::WrapUnique(new StageHost());
  Listener::Options listen;
  listen.network = options.listen;
  listen.advertise = options.advertise;
  listen.unix_socket = host->local_.address();
  listen.security = options.security;
  listen.limits = options.limits;
  listen.log = options.log;
  TRIBUTARY_ASSIGN_OR_RETURN(host->listener_,
                             Listener::Start(listen, {host->service_.get()}));
  return host;
}

StageHost::~StageHost() {
  if (listener_ == nullptr) return;
  listener_->ShutDown(absl::ZeroDuration());
  service_->AwaitIdle();
}

void StageHost::Serve(const StageReceiver::Worker& worker) {
  service_->Serve(worker);
}

}  // namespace tributary

// The ParameterServer service: gRPC streams in front of an UpdateEngine.
// proto/parameter_server.proto defines the protocol.
#ifndef TRIBUTARY_SERVER_SERVICE_PARAMETER_SERVER_SERVICE_H_
#define TRIBUTARY_SERVER_SERVICE_PARAMETER_SERVER_SERVICE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/monotonic_clock.h"
#include "common/os/logger.h"
#include "common/transport/live_calls.h"
#include "common/update/update_engine.h"
#include "proto/parameter_server.grpc.pb.h"
#include "server/progress/step_arrivals.h"
#include "server/service/exchange_session.h"
#include "server/service/weights_service.h"

namespace tributary {

// Serves an UpdateEngine over gRPC. Thread-safe. The methods are raw (they
// take unparsed bytes), so that payloads bypass protobuf.
class ParameterServerService final
    : public ParameterServer::WithRawCallbackMethod_Exchange<
          ParameterServer::WithRawCallbackMethod_ReadWeights<
              ParameterServer::Service>>,
      public WeightsService {
 public:
  // `log` must outlive the gRPC server. The log receives one line for each
  // worker that is refused permanently, up to a fixed number of lines.
  ParameterServerService(int shard, Logger* log);
  ~ParameterServerService() override;

  void Serve(const ServedWeights& weights) override ABSL_LOCKS_EXCLUDED(mu_);
  void Refuse(const absl::Status& status) override ABSL_LOCKS_EXCLUDED(mu_);
  void TakeArrivals(int64_t step, StepSums* sums) override {
    arrivals_.Take(step, sums);
  }
  Traffic traffic() const override;

  // Waits until no call uses the engine. Call it after the gRPC server's
  // shutdown.
  void AwaitIdle() { calls_->AwaitNone(); }

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Exchange(
      grpc::CallbackServerContext* context) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* ReadWeights(
      grpc::CallbackServerContext* context,
      const grpc::ByteBuffer* request) override;

 private:
  ExchangeSession::Served served() const ABSL_LOCKS_EXCLUDED(mu_);
  // Logs that a worker was refused permanently. `incarnation` is the number
  // that the worker got when it joined, or 0 if the worker has not sent it.
  void NoteRefusal(int64_t incarnation, const absl::Status& status);

  Logger* const log_;
  std::atomic<int> refusals_{0};
  TransportCounters counters_;
  StepArrivals arrivals_{&MonotonicNow};
  const std::shared_ptr<LiveCalls> calls_ = std::make_shared<LiveCalls>();
  mutable absl::Mutex mu_;
  ExchangeSession::Served served_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_PARAMETER_SERVER_SERVICE_H_

// A server's sessions with workers, and with servers that read its weights,
// over any transport.
#ifndef TRIBUTARY_SERVER_SERVICE_WEIGHTS_SESSIONS_H_
#define TRIBUTARY_SERVER_SERVICE_WEIGHTS_SESSIONS_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/monotonic_clock.h"
#include "common/os/logger.h"
#include "common/stream/message_stream.h"
#include "common/update/update_engine.h"
#include "proto/parameter_server.pb.h"
#include "server/progress/step_arrivals.h"
#include "server/service/exchange_session.h"
#include "server/service/weights_service.h"

namespace tributary {

// Makes the sessions of the calls Exchange and ReadWeights; the transport
// connects them to streams. Must outlive the sessions. Thread-safe.
class WeightsSessions final : public WeightsService {
 public:
  // `log` receives one line for each worker that is refused permanently, up to
  // a fixed number of lines. It must outlive this object.
  WeightsSessions(int shard, Logger* log);
  WeightsSessions(const WeightsSessions&) = delete;
  WeightsSessions& operator=(const WeightsSessions&) = delete;

  void Serve(const ServedWeights& weights) override ABSL_LOCKS_EXCLUDED(mu_);
  void Refuse(const absl::Status& status) override ABSL_LOCKS_EXCLUDED(mu_);
  void TakeArrivals(int64_t step, StepSums* sums) override {
    arrivals_.Take(step, sums);
  }
  Traffic traffic() const override;

  // Returns the engine that is served; null before Serve.
  UpdateEngine* engine() const { return served().weights.engine; }

  // Return the session of one call. `stream` must outlive it.
  std::unique_ptr<ServerSession<WorkerMessage, ServerMessage>> Exchange(
      ServerStream<ServerMessage>* stream);
  std::unique_ptr<ServerSession<ReadWeightsRequest, ServerMessage>> ReadWeights(
      ServerStream<ServerMessage>* stream);

 private:
  ExchangeSession::Served served() const ABSL_LOCKS_EXCLUDED(mu_);
  // Logs that a worker was refused permanently. `incarnation` is the number
  // that the worker got when it joined, or 0 if the worker has not sent it.
  void NoteRefusal(int64_t incarnation, const absl::Status& status);

  Logger* const log_;
  std::atomic<int> refusals_{0};
  TransportCounters counters_;
  StepArrivals arrivals_{&MonotonicNow};
  mutable absl::Mutex mu_;
  ExchangeSession::Served served_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_WEIGHTS_SESSIONS_H_

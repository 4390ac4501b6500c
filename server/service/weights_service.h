// The interface of the service that passes workers' messages to a server's
// engine.
#ifndef TRIBUTARY_SERVER_SERVICE_WEIGHTS_SERVICE_H_
#define TRIBUTARY_SERVER_SERVICE_WEIGHTS_SERVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/metrics/traffic.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

class MemberSecrets;
class UpdateEngine;

// What a server serves to the workers of a job, in one attempt (one run of the
// protocol).
struct ServedWeights {
  // Must outlive all streams.
  UpdateEngine* engine = nullptr;
  std::string job_id;
  int64_t attempt = 0;
  // Checks which worker sends a message, and which micro-batches are assigned
  // to it. If null, workers prove neither.
  std::shared_ptr<const MemberSecrets> secrets;
  // Called when a worker has sent a message that no correct worker sends, after
  // the engine has revoked the worker (see UpdateEngine::Revoke). Must not
  // block. May be null.
  std::function<void(int64_t incarnation, const absl::Status&)> on_violation;
};

// Returns what a configured server serves. Reports a worker that has sent a
// message that no correct worker sends to `report`.
ServedWeights ServedBy(UpdateEngine* engine, const Configure& configure,
                       const std::function<void(const ServerReport&)>& report);

// Serves an UpdateEngine to workers. Thread-safe; no method blocks.
class WeightsService {
 public:
  virtual ~WeightsService() = default;

  // Serves the weights to the workers of their job and attempt, and refuses
  // other workers. Before this call, all workers are refused with UNAVAILABLE;
  // they then try again.
  virtual void Serve(const ServedWeights& weights) = 0;

  // Refuses all workers with this status, because this server has no weights.
  // Call it instead of Serve.
  virtual void Refuse(const absl::Status& status) = 0;

  // Writes to `sums` which workers contributed to the step, and when each
  // worker's last contribution (gradient sum) arrived, in seconds since the
  // step's first contribution. Discards the records of this step and of all
  // older steps.
  virtual void TakeArrivals(int64_t step, StepSums* sums) = 0;

  // Returns the numbers of bytes of gradients and weights that the service has
  // sent and received so far.
  virtual Traffic traffic() const = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_WEIGHTS_SERVICE_H_

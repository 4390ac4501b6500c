// The interface of the service that passes workers' messages to a server's
// store.
#ifndef TRIBUTARY_SERVER_SERVICE_WEIGHTS_SERVICE_H_
#define TRIBUTARY_SERVER_SERVICE_WEIGHTS_SERVICE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/metrics/traffic.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

class ParameterStore;

// Serves a ParameterStore to workers. Thread-safe; no method blocks.
class WeightsService {
 public:
  virtual ~WeightsService() = default;

  // Serves `store` to the workers of this job and attempt (one run of the
  // protocol), and refuses other workers. Before this call, all workers are
  // refused with UNAVAILABLE; they then try again. `store` must outlive all
  // streams.
  virtual void Serve(ParameterStore* store, const std::string& job_id,
                     int64_t attempt) = 0;

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

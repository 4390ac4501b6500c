// What a server's streams are to the rest of it: whatever brings workers'
// messages to the store.
#ifndef TRIBUTARY_SERVER_SERVICE_WEIGHTS_SERVICE_H_
#define TRIBUTARY_SERVER_SERVICE_WEIGHTS_SERVICE_H_

#include <cstdint>
#include <string>

#include "proto/rendezvous.pb.h"

namespace tributary {

class ParameterStore;

// Thread-safe; nothing blocks.
class WeightsService {
 public:
  virtual ~WeightsService() = default;

  // Until a store is given, workers are refused with UNAVAILABLE; from then on
  // those of another job or attempt. `store` must outlive all streams.
  virtual void Serve(ParameterStore* store, const std::string& job_id,
                     int64_t attempt) = 0;

  // Writes who contributed to the step, and when, to `sums`, and forgets it.
  virtual void TakeArrivals(int64_t step, StepSums* sums) = 0;

  // Sets the bytes sent and received so far.
  virtual void CountBytes(ProcessStatistics* statistics) const = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_WEIGHTS_SERVICE_H_

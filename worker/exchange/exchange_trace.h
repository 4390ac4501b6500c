// Traces what an exchange sends and receives; see OutputSpec.trace.
#ifndef TRIBUTARY_WORKER_EXCHANGE_EXCHANGE_TRACE_H_
#define TRIBUTARY_WORKER_EXCHANGE_EXCHANGE_TRACE_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "common/trace/trace_recorder.h"

namespace tributary {

// Records the traced steps' contributions, arrivals and, in an all-reduce,
// updates. Thread-safe and wait-free.
class ExchangeTrace {
 public:
  // `receiver` is the worker's incarnation or, in an all-reduce, its number
  // among the members. `recorder` must outlive this object.
  ExchangeTrace(TraceRecorder* recorder, int64_t receiver);

  // Records that the worker has passed a contribution on, since `begin`.
  void Pushed(int64_t step, int chunk, int node, absl::Time begin);
  // Records that the weights of this version have been taken or written, since
  // `begin`.
  void Arrived(int64_t version, int chunk, absl::Time begin);
  // All-reduce: records that this member has summed the contributions of
  // `nodes` and updated the chunk, since `begin`. The weights then go to all
  // other receivers below `receivers`.
  void Updated(int64_t step, int chunk,
               const std::vector<std::vector<int>>& nodes, int receivers,
               absl::Time begin);

 private:
  TraceRecorder* const recorder_;
  const int64_t receiver_;
  const int push_track_, arrival_track_, update_track_;
  const int push_, arrival_, update_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_EXCHANGE_TRACE_H_

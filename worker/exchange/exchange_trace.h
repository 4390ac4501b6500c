// Traces what an exchange sends and receives; see OutputSpec.trace.
#ifndef TRIBUTARY_WORKER_EXCHANGE_EXCHANGE_TRACE_H_
#define TRIBUTARY_WORKER_EXCHANGE_EXCHANGE_TRACE_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "common/trace/trace_recorder.h"

namespace tributary {

// Records, for each traced step, when the worker sends contributions (gradient
// sums), when new weights arrive and, in an all-reduce, when it updates chunks.
// Each recorded interval ends at the time of the call. Thread-safe and
// wait-free.
class ExchangeTrace {
 public:
  // `receiver` identifies the worker: its incarnation (the number of its
  // membership in the job) or, in an all-reduce, its number among the members.
  // `recorder` must outlive this object.
  ExchangeTrace(TraceRecorder* recorder, int64_t receiver);

  // Records that the worker has sent a contribution. Sending began at `begin`.
  void Pushed(int64_t step, int chunk, int node, absl::Time begin);
  // Records that this version of a chunk has arrived. At `begin`, the worker
  // began to write it to its arena or, if it is in shared memory, to process
  // the server's notice that it is there.
  void Arrived(int64_t version, int chunk, absl::Time begin);
  // What is added up for a chunk of an all-reduce, and who receives the result.
  struct Route {
    std::vector<int> nodes;      // Of the reduction tree.
    std::vector<int> receivers;  // The other members that do.
  };
  // For an all-reduce: records that this member has updated the chunk (on a
  // GPU, queued the update), after it had added up the contributions. The
  // update began at `begin`.
  void Updated(int64_t step, int chunk, const Route& route, absl::Time begin);

 private:
  TraceRecorder* const recorder_;
  const int64_t receiver_;
  const int push_track_, arrival_track_, update_track_;
  const int push_, arrival_, update_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_EXCHANGE_TRACE_H_

// Gathers what the coordinator is told of a step's sums.
#ifndef TRIBUTARY_SERVER_STORE_SUM_REPORTS_H_
#define TRIBUTARY_SERVER_STORE_SUM_REPORTS_H_

#include <cstdint>
#include <map>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "proto/rendezvous.pb.h"
#include "server/store/aggregation/chunk_aggregator.h"

namespace tributary {

// Of one server. Thread-safe.
class SumReports {
 public:
  struct ChunkSum {
    int number = 0;
    int place = 0;  // Among this server's chunks.
    int64_t elements = 0;
    int64_t step = 0;
    // Its gradients; read only during Add.
    const TreeSum* sum = nullptr;
    double sum_of_squares = 0;
  };

  // Of a server with so many chunks.
  explicit SumReports(int chunks) : chunks_(chunks) {}

  // Once for each chunk and step. The report, when it is the step's last chunk;
  // it names one element that is not finite of each chunk that has any.
  std::optional<StepSums> Add(const ChunkSum& chunk) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Open {
    StepSums sums;
    int missing = 0;
  };

  const int chunks_;
  absl::Mutex mu_;
  // Steps that some chunks have reported and others have not.
  std::map<int64_t, Open> open_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_STORE_SUM_REPORTS_H_

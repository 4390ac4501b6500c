// The suite that every Exchange passes, over every transport. A test of one
// links the library and instantiates ExchangeConformanceTest with its
// implementations.
#ifndef TRIBUTARY_TESTS_WORKER_EXCHANGE_CONFORMANCE_EXCHANGE_CONFORMANCE_H_
#define TRIBUTARY_TESTS_WORKER_EXCHANGE_CONFORMANCE_EXCHANGE_CONFORMANCE_H_

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tests/worker/exchange/conformance/exchange_worker.h"
#include "tests/worker/exchange/conformance/exchange_workload.h"
#include "worker/exchange/exchange.h"

namespace tributary {

// The peers of the workers of one job: servers, or connections between workers.
// Outlives the exchanges.
class ExchangePeers {
 public:
  virtual ~ExchangePeers() = default;
  // Creates the exchange of the worker `rank`. `sink` must outlive it.
  virtual absl::StatusOr<std::unique_ptr<Exchange>> Connect(
      int rank, WeightsSink* sink) = 0;
  // Ends a server as if its process were lost. Returns false if there are no
  // servers: the peers of a worker are then the other workers.
  virtual bool LoseServer() { return false; }
};

struct ExchangeImplementation {
  std::string name;
  int workers = 1;
  // Worker 0 alone sends the initial weights; otherwise all workers do.
  bool one_initializes = false;
  // May deliver a version that the sink parks.
  bool parks = false;
  // The error of a lost peer contains this.
  std::string lost_peer;
  // `workload` outlives the result. Reports failures to the test and returns
  // null.
  std::function<std::unique_ptr<ExchangePeers>(const ExchangeWorkload& workload,
                                               int workers)>
      make_peers;
};

inline void PrintTo(const ExchangeImplementation& implementation,
                    std::ostream* os) {
  *os << implementation.name;
}

inline std::string ImplementationName(
    const testing::TestParamInfo<ExchangeImplementation>& implementation) {
  return implementation.param.name;
}

class ExchangeConformanceTest
    : public testing::TestWithParam<ExchangeImplementation> {
 protected:
  // Makes and connects all workers, and sends the initial weights.
  void Start(const std::string& optimizer);
  // Calls `body(worker)` for every worker, each on a thread of its own.
  void ForEachWorker(const std::function<void(ExchangeWorker*)>& body);
  // Takes part in steps [begin, end) with all workers.
  void Train(int64_t begin, int64_t end);
  // Ends a peer of worker 0.
  void LosePeer();
  ExchangeWorker* worker(int rank) { return workers_[rank].get(); }
  int size() const { return static_cast<int>(workers_.size()); }
  int chunks() const { return workload_->layout.chunk_count(); }

  std::unique_ptr<ExchangeWorkload> workload_;
  std::unique_ptr<ExchangeReference> reference_;
  std::unique_ptr<ExchangePeers> peers_;
  std::vector<std::unique_ptr<ExchangeWorker>> workers_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_EXCHANGE_CONFORMANCE_EXCHANGE_CONFORMANCE_H_

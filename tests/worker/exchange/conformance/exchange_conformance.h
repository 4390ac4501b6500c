// Conformance suite that every Exchange must pass, over every transport. The
// test of an implementation links this library and instantiates
// ExchangeConformanceTest with it.
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
  // Returns the GPU of the worker `rank` if its exchange keeps sums and weights
  // in the memory of a server's GPU. The device must outlive the workers.
  virtual WorkerGpu gpu(int /*rank*/) { return WorkerGpu(); }
  // Ends a server as if its process were lost. Returns false if there are no
  // servers: the peers of a worker are then the other workers.
  virtual bool LoseServer() { return false; }
};

struct ExchangeImplementation {
  std::string name;
  int workers = 1;
  // True if only worker 0 sends the initial weights. If false, all workers send
  // them.
  bool one_initializes = false;
  // True if the implementation supports sinks that park a version.
  bool parks = false;
  // Text that the error of a lost peer must contain.
  std::string lost_peer;
  // Creates the peers for a job of `workers` workers. `workload` outlives the
  // result. If this fails, fails the test and returns null.
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
  // Creates and connects all workers, and sends the initial weights. See
  // ExchangeWorkload for `optimizer`.
  void Start(const std::string& optimizer);
  // Calls `body(worker)` for every worker, each on a thread of its own.
  void ForEachWorker(const std::function<void(ExchangeWorker*)>& body);
  // Runs steps [begin, end) with all workers, and compares every version with
  // the reference.
  void Train(int64_t begin, int64_t end);
  // Ends a peer of worker 0: a server or, if there are no servers, another
  // worker.
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

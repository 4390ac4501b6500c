// Parameter servers in the process of a test, for the conformance suite.
#ifndef TRIBUTARY_TESTS_WORKER_EXCHANGE_CONFORMANCE_EXCHANGE_SERVERS_H_
#define TRIBUTARY_TESTS_WORKER_EXCHANGE_CONFORMANCE_EXCHANGE_SERVERS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/thread_pool.h"
#include "common/listener/listener.h"
#include "common/os/logger.h"
#include "common/parameters/arena_layout.h"
#include "common/stream/local_calls.h"
#include "common/update/block_pass.h"
#include "common/update/update_engine.h"
#include "proto/job.pb.h"
#include "server/service/parameter_server_service.h"
#include "tests/worker/exchange/conformance/exchange_conformance.h"
#include "worker/exchange/parameter_server/parameter_server_exchange.h"

namespace tributary {

// Servers without a coordinator: the sums of squares that they report give the
// norm.
class ExchangeServers : public ExchangePeers {
 public:
  struct Options {
    ExchangeSpec::Transport transport = ExchangeSpec::WIRE;
    // Calls stay in this process, instead of going over gRPC.
    bool local_calls = false;
    int servers = 1;
    // Creates the passes of each server. A pass that fails fails the test.
    ChunkPassMaker make_passes = &MakeBlockPasses;
  };
  // Number of threads that call the passes; all servers share them.
  static constexpr int kThreads = 3;

  ExchangeServers(const ExchangeWorkload& workload, const Options& options);
  ~ExchangeServers() override;

  absl::StatusOr<std::unique_ptr<Exchange>> Connect(int rank,
                                                    WeightsSink* sink) override;
  bool LoseServer() override;

 private:
  struct OpenStep {
    std::map<int, double> squares;  // By chunk.
    // By chunk; empty without trust ratios.
    std::map<int, std::vector<TensorSquares>> tensors;
    int64_t sample_count = 0;
  };

  // Sets the options that differ between workers: how the worker `rank` maps
  // the memory of the server's GPU, and which chunks it receives.
  virtual void SetOptions(int /*rank*/,
                          ParameterServerExchange::Options* /*options*/) {}

  void MakeStore(int shard, const Options& options);
  void Listen(int shard);
  void AcceptLocalCalls(int shard);
  // Opens a call within this process; `address` is the shard.
  std::unique_ptr<ExchangeStream> OpenLocal(const std::string& address);
  // Passes the norm to all servers when the last server has reported.
  void OnSums(int shard, const StepSums& sums) ABSL_LOCKS_EXCLUDED(mu_);

  const ArenaLayout layout_;
  JobSpec job_;
  std::unique_ptr<Logger> log_;
  // Shared by the servers, so that it can be drained before any engine is
  // destroyed.
  std::unique_ptr<ThreadPool> pool_;
  absl::Mutex mu_;
  std::map<int64_t, OpenStep> open_ ABSL_GUARDED_BY(mu_);
  // By shard.
  std::vector<std::unique_ptr<UpdateEngine>> stores_;
  std::vector<std::unique_ptr<ParameterServerService>> services_;
  std::vector<LocalAddress> local_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  // Instead of listeners, with Options::local_calls.
  std::vector<std::shared_ptr<LocalCalls>> calls_;
  std::unique_ptr<ThreadPool> delivering_;
};

// Describes a ParameterServerExchange with this many servers to the suite. The
// caller sets `name` and `make_peers`.
ExchangeImplementation ServerExchange(int servers, int workers);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_EXCHANGE_CONFORMANCE_EXCHANGE_SERVERS_H_

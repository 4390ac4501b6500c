#include <unistd.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/thread_pool.h"
#include "common/job/exchange_traits.h"
#include "common/transport/channel.h"
#include "common/transport/grpc_client_stream.h"
#include "gtest/gtest.h"
#include "server/service/listener.h"
#include "server/service/parameter_server_service.h"
#include "server/store/parameter_store.h"
#include "tests/worker/exchange/conformance/exchange_conformance.h"
#include "worker/exchange/parameter_server/parameter_server_exchange.h"

namespace tributary {
namespace {

constexpr char kJobId[] = "job";
constexpr int64_t kAttempt = 3;

// Servers in this process, without a coordinator: the sums of squares that they
// report give the norm.
class Servers final : public ExchangePeers {
 public:
  Servers(const ExchangeWorkload& workload, ExchangeSpec::Transport transport,
          int servers)
      : layout_(workload.layout), job_(workload.job) {
    job_.mutable_exchange()->mutable_parameter_server();
    job_.mutable_exchange()->set_transport(transport);
    LogOptions quiet;
    quiet.standard_error = false;
    log_ = *Logger::Create(quiet);
    for (int shard = 0; shard < servers; ++shard) MakeStore(shard, servers);
    for (int shard = 0; shard < servers; ++shard) Listen(shard);
  }

  ~Servers() override {
    for (const auto& listener : listeners_) {
      listener->ShutDown(absl::ZeroDuration());
    }
    for (const auto& service : services_) service->AwaitIdle();
    pool_.reset();
  }

  absl::StatusOr<std::unique_ptr<Exchange>> Connect(
      int rank, WeightsSink* sink) override {
    ParameterServerExchange::Options options;
    for (size_t shard = 0; shard < listeners_.size(); ++shard) {
      options.servers.push_back({listeners_[shard]->address(), local_[shard]});
    }
    options.exchange = job_.exchange();
    options.traits = ResolveExchange(job_);
    options.incarnation = rank + 1;
    options.attempt = kAttempt;
    options.job_id = kJobId;
    return ParameterServerExchange::Create(options, &layout_, sink, &Open);
  }

  bool LoseServer() override {
    listeners_.back()->ShutDown(absl::ZeroDuration());
    return true;
  }

 private:
  struct OpenStep {
    std::map<int, double> squares;  // By chunk.
    int64_t sample_count = 0;
  };

  static absl::StatusOr<std::unique_ptr<ExchangeStream>> Open(
      const std::string& address, absl::Time deadline,
      const std::function<bool()>& stop) {
    auto channel = CreateChannel(address);
    const absl::Status connected =
        AwaitConnected(channel.get(), address, {}, deadline, stop);
    if (!connected.ok()) return connected;
    return std::make_unique<GrpcClientStream<ServerMessage, WorkerMessage>>(
        std::move(channel), "/tributary.ParameterServer/Exchange");
  }

  void MakeStore(int shard, int servers) {
    ParameterStore::Options options;
    options.job = job_;
    options.steps = ExchangeWorkload::kSteps;
    options.shard = shard;
    options.servers = servers;
    options.attempt = kAttempt;
    stores_.push_back(*ParameterStore::Create(
        options, layout_, pool_.get(),
        [this, shard](const StepSums& sums) { OnSums(shard, sums); }));
  }

  void Listen(int shard) {
    services_.push_back(
        std::make_unique<ParameterServerService>(shard, log_.get()));
    services_.back()->Serve(stores_[shard].get(), kJobId, kAttempt);
    local_.push_back(MakeLocalAddress());
    Listener::Options options;
    options.network = "127.0.0.1:0";
    options.unix_socket = local_.back().address();
    options.log = log_.get();
    auto listener = Listener::Start(options, {services_.back().get()});
    ASSERT_TRUE(listener.ok()) << listener.status();
    listeners_.push_back(*std::move(listener));
  }

  // Passes the norm to all servers when the last server has reported.
  void OnSums(int shard, const StepSums& sums) {
    const std::vector<int>& own = stores_[shard]->chunk_numbers();
    absl::MutexLock lock(&mu_);
    OpenStep& open = open_[sums.step()];
    for (size_t i = 0; i < own.size(); ++i) {
      open.squares[own[i]] = sums.sum_of_squares(static_cast<int>(i));
    }
    open.sample_count = sums.weight();
    if (static_cast<int>(open.squares.size()) < layout_.chunk_count()) return;
    double total = 0;
    for (const auto& [chunk, squares] : open.squares) total += squares;
    const double norm =
        std::sqrt(total) / static_cast<double>(open.sample_count);
    for (const auto& store : stores_) store->SetGradientNorm(sums.step(), norm);
    open_.erase(sums.step());
  }

  const ArenaLayout layout_;
  JobSpec job_;
  std::unique_ptr<Logger> log_;
  // Shared by the servers, so that it can be drained before any store is
  // destroyed.
  std::unique_ptr<ThreadPool> pool_ = std::make_unique<ThreadPool>(3);
  absl::Mutex mu_;
  std::map<int64_t, OpenStep> open_ ABSL_GUARDED_BY(mu_);
  // By shard.
  std::vector<std::unique_ptr<ParameterStore>> stores_;
  std::vector<std::unique_ptr<ParameterServerService>> services_;
  std::vector<LocalAddress> local_;
  std::vector<std::unique_ptr<Listener>> listeners_;
};

ExchangeImplementation Server(const std::string& name,
                              ExchangeSpec::Transport transport, int servers,
                              int workers) {
  ExchangeImplementation server;
  server.name =
      absl::StrCat(name, "_", servers, "_servers_", workers, "_workers");
  server.workers = workers;
  server.one_initializes = true;
  server.parks = true;
  server.lost_peer = absl::StrCat("lost server ", servers - 1, " (");
  server.make_peers = [=](const ExchangeWorkload& workload, int /*workers*/) {
    return std::make_unique<Servers>(workload, transport, servers);
  };
  return server;
}

std::vector<ExchangeImplementation> Implementations() {
  std::vector<ExchangeImplementation> all;
  for (const int servers : {1, 3}) {
    for (const int workers : {1, 3}) {
      all.push_back(Server("tcp", ExchangeSpec::WIRE, servers, workers));
      all.push_back(
          Server("unix_socket", ExchangeSpec::UNIX_SOCKET, servers, workers));
      all.push_back(
          Server("shared_memory", ExchangeSpec::MEMORY, servers, workers));
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(ParameterServer, ExchangeConformanceTest,
                         testing::ValuesIn(Implementations()),
                         ImplementationName);

}  // namespace
}  // namespace tributary

#include "tests/worker/exchange/conformance/exchange_servers.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/os/shared_memory.h"
#include "common/stream/local_call.h"
#include "common/transport/channel.h"
#include "common/transport/grpc_client_stream.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

constexpr char kJobId[] = "job";
constexpr int64_t kAttempt = 3;

absl::StatusOr<std::unique_ptr<ExchangeStream>> OpenStream(
    const std::string& address, absl::Time deadline,
    const std::function<bool()>& stop) {
  auto channel = CreateChannel(address);
  const absl::Status connected =
      AwaitConnected(channel.get(), address, {}, deadline, stop);
  if (!connected.ok()) return connected;
  return std::make_unique<GrpcClientStream<ServerMessage, WorkerMessage>>(
      std::move(channel), "/tributary.ParameterServer/Exchange");
}

}  // namespace

ExchangeServers::ExchangeServers(const ExchangeWorkload& workload,
                                 const Options& options)
    : layout_(workload.layout),
      job_(workload.job),
      pool_(std::make_unique<ThreadPool>(kThreads)) {
  job_.mutable_exchange()->mutable_parameter_server();
  job_.mutable_exchange()->set_transport(options.transport);
  LogOptions quiet;
  quiet.standard_error = false;
  log_ = *Logger::Create(quiet);
  for (int shard = 0; shard < options.servers; ++shard) {
    MakeStore(shard, options);
  }
  if (options.local_calls) delivering_ = std::make_unique<ThreadPool>(2);
  for (int shard = 0; shard < options.servers; ++shard) Listen(shard);
}

ExchangeServers::~ExchangeServers() {
  for (const auto& listener : listeners_) {
    listener->ShutDown(absl::ZeroDuration());
  }
  for (const auto& calls : calls_) calls->ShutDown(absl::ZeroDuration());
  for (const auto& service : services_) service->AwaitIdle();
  pool_.reset();
}

absl::StatusOr<std::unique_ptr<Exchange>> ExchangeServers::Connect(
    int rank, WeightsSink* sink) {
  ParameterServerExchange::Options options;
  for (size_t shard = 0; shard < local_.size(); ++shard) {
    options.servers.push_back(
        {calls_.empty() ? listeners_[shard]->address() : absl::StrCat(shard),
         local_[shard]});
  }
  options.job = job_;
  options.incarnation = rank + 1;
  options.attempt = kAttempt;
  options.job_id = kJobId;
  SetOptions(rank, &options);
  if (calls_.empty()) {
    return ParameterServerExchange::Create(options, &layout_, sink,
                                           &OpenStream);
  }
  return ParameterServerExchange::Create(
      options, &layout_, sink,
      [this](const std::string& address, absl::Time,
             const std::function<bool()>&) { return OpenLocal(address); });
}

bool ExchangeServers::LoseServer() {
  if (!calls_.empty()) {
    calls_.back()->ShutDown(absl::ZeroDuration());
    return true;
  }
  listeners_.back()->ShutDown(absl::ZeroDuration());
  return true;
}

void ExchangeServers::MakeStore(int shard, const Options& options) {
  UpdateEngine::Options engine;
  engine.job = job_;
  engine.steps = ExchangeWorkload::kSteps;
  engine.shard = shard;
  engine.servers = options.servers;
  engine.attempt = kAttempt;
  engine.make_passes = options.make_passes;
  engine.on_failure = [](const absl::Status& status) {
    ADD_FAILURE() << status;
  };
  stores_.push_back(*UpdateEngine::Create(
      engine, layout_, pool_.get(),
      [this, shard](const StepSums& sums) { OnSums(shard, sums); }));
}

void ExchangeServers::Listen(int shard) {
  services_.push_back(
      std::make_unique<ParameterServerService>(shard, log_.get()));
  ServedWeights served;
  served.engine = stores_[shard].get();
  served.job_id = kJobId;
  served.attempt = kAttempt;
  services_.back()->sessions()->Serve(served);
  if (delivering_ != nullptr) {
    AcceptLocalCalls(shard);
    return;
  }
  local_.push_back(MakeLocalAddress());
  Listener::Options options;
  options.network = "127.0.0.1:0";
  options.unix_socket = local_.back().address();
  options.log = log_.get();
  auto listener = Listener::Start(options, {services_.back().get()});
  ASSERT_TRUE(listener.ok()) << listener.status();
  listeners_.push_back(*std::move(listener));
}

void ExchangeServers::AcceptLocalCalls(int shard) {
  calls_.push_back(std::make_shared<LocalCalls>(delivering_.get()));
  local_.emplace_back();
  local_.back().set_host(HostIdentity());
  local_.back().set_address(absl::StrCat(shard));
}

std::unique_ptr<ExchangeStream> ExchangeServers::OpenLocal(
    const std::string& address) {
  const size_t shard = static_cast<size_t>(std::stoi(address));
  WeightsSessions* const sessions = services_[shard]->sessions();
  return LocalCall<WorkerMessage, ServerMessage>::Open(
      calls_[shard], [sessions](ServerStream<ServerMessage>* stream) {
        return sessions->Exchange(stream);
      });
}

void ExchangeServers::OnSums(int shard, const StepSums& sums) {
  const std::vector<int>& own = stores_[shard]->chunk_numbers();
  absl::MutexLock lock(&mu_);
  OpenStep& open = open_[sums.step()];
  for (size_t i = 0; i < own.size(); ++i) {
    open.squares[own[i]] = sums.sum_of_squares(static_cast<int>(i));
  }
  const TrustRatios ratios(layout_);
  int part = 0;
  for (const int chunk : own) {
    if (sums.weight_squares_size() == 0) break;
    for (int i = 0; i < ratios.PartsIn(chunk); ++i, ++part) {
      open.tensors[chunk].push_back(
          {sums.weight_squares(part), sums.direction_squares(part)});
    }
  }
  open.sample_count = sums.weight();
  if (static_cast<int>(open.squares.size()) < layout_.chunk_count()) return;
  double total = 0;
  for (const auto& [chunk, squares] : open.squares) total += squares;
  const double norm = std::sqrt(total) / static_cast<double>(open.sample_count);
  std::vector<float> trust_ratios;
  if (!open.tensors.empty()) {
    std::vector<std::vector<TensorSquares>> tensors(layout_.chunk_count());
    for (const auto& [chunk, squares] : open.tensors) tensors[chunk] = squares;
    trust_ratios = ratios.Of(tensors);
  }
  for (const auto& engine : stores_) {
    EXPECT_EQ(engine->SetGradientNorm(sums.step(), norm, trust_ratios),
              absl::OkStatus());
  }
  open_.erase(sums.step());
}

ExchangeImplementation ServerExchange(int servers, int workers) {
  ExchangeImplementation exchange;
  exchange.workers = workers;
  exchange.one_initializes = true;
  exchange.parks = true;
  exchange.lost_peer = absl::StrCat("lost server ", servers - 1, " (");
  return exchange;
}

}  // namespace tributary

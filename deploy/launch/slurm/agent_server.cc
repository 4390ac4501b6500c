#include "deploy/launch/slurm/agent_server.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/time/time.h"
#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "common/transport/grpc_server_stream.h"
#include "common/transport/live_calls.h"
#include "deploy/launch/slurm/node_agents.grpc.pb.h"

namespace tributary {
namespace {

std::unique_ptr<Logger> NoLog() {
  LogOptions options;
  options.standard_error = false;
  // Only opening a file can fail.
  return *Logger::Create(options);
}

}  // namespace

class AgentServer::Session final
    : public ServerSession<AgentReport, AgentOrder> {
 public:
  Session(AgentServer* server, ServerStream<AgentOrder>* stream)
      : server_(*server), stream_(*stream), call_(server->Add(stream)) {}

  void OnMessage(const AgentReport& report, ReceivedPayload) override {
    server_.Receive(call_, report);
  }
  void OnEnd() override { stream_.Close(absl::OkStatus()); }
  void OnGone() override { server_.Remove(call_); }

 private:
  AgentServer& server_;
  ServerStream<AgentOrder>& stream_;
  const int call_;
};

class AgentServer::Service final
    : public NodeAgents::WithRawCallbackMethod_Attend<NodeAgents::Service> {
 public:
  explicit Service(AgentServer* server) : server_(server) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Attend(
      grpc::CallbackServerContext*) override {
    auto* stream = new GrpcServerStream<AgentReport, AgentOrder>(calls_);
    stream->Start(std::make_unique<Session>(server_, stream),
                  kDefaultLimits.handshake_timeout);
    return stream;
  }

  void AwaitIdle() { calls_->AwaitNone(); }

 private:
  AgentServer* const server_;
  const std::shared_ptr<LiveCalls> calls_ = std::make_shared<LiveCalls>();
};

AgentServer::AgentServer()
    : log_(NoLog()), service_(std::make_unique<Service>(this)) {}

absl::StatusOr<std::unique_ptr<AgentServer>> AgentServer::Start(
    const Security& security, int agents) {
  auto server = absl::WrapUnique(new AgentServer());
  Listener::Options options;
  options.network = "[::]:0";  // Accepts IPv4, too.
  options.unix_socket = MakeLocalAddress().address();
  options.security = security;
  options.limits = ForWorkers(agents);
  options.log = server->log_.get();
  auto listener = Listener::Start(options, {server->service_.get()});
  if (!listener.ok()) {  // A kernel without IPv6.
    options.network = "0.0.0.0:0";
    listener = Listener::Start(options, {server->service_.get()});
  }
  TRIBUTARY_RETURN_IF_ERROR(listener.status());
  server->listener_ = *std::move(listener);
  return server;
}

AgentServer::~AgentServer() {
  if (listener_ == nullptr) return;
  listener_->ShutDown(absl::ZeroDuration());
  service_->AwaitIdle();
}

std::vector<AgentServer::Event> AgentServer::Take() {
  absl::MutexLock lock(&mu_);
  return std::exchange(events_, {});
}

void AgentServer::Send(int call, const AgentOrder& order) {
  absl::MutexLock lock(&mu_);
  const auto found = calls_.find(call);
  if (found != calls_.end()) found->second->Send(order);
}

void AgentServer::Close(int call) {
  absl::MutexLock lock(&mu_);
  const auto found = calls_.find(call);
  if (found == calls_.end()) return;
  found->second->Close(absl::CancelledError("the launcher has given up"));
  calls_.erase(found);
}

int AgentServer::Add(ServerStream<AgentOrder>* stream) {
  absl::MutexLock lock(&mu_);
  calls_[next_call_] = stream;
  return next_call_++;
}

void AgentServer::Receive(int call, const AgentReport& report) {
  absl::MutexLock lock(&mu_);
  if (calls_.count(call) > 0) events_.push_back({call, report});
}

void AgentServer::Remove(int call) {
  absl::MutexLock lock(&mu_);
  if (calls_.erase(call) == 0) return;
  events_.push_back({call, AgentReport(), /*gone=*/true});
}

}  // namespace tributary

#include "deploy/tools/conformance/wire_tap.h"

#include <utility>

#include "absl/memory/memory.h"
#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "common/listener/listener.h"
#include "common/transport/grpc_server_stream.h"
#include "common/transport/live_calls.h"
#include "deploy/tools/conformance/relayed_call.h"
#include "proto/parameter_server.grpc.pb.h"
#include "proto/rendezvous.grpc.pb.h"

namespace tributary {
namespace {

using Reactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

// Begins to relay a call.
template <typename FromWorker, typename FromServer>
Reactor* Relay(const std::string& method, int shard, bool membership,
               const std::shared_ptr<LiveCalls>& live,
               CallObserver<FromWorker, FromServer>* observer, WireTap* tap) {
  using Relayed = RelayedCall<FromWorker, FromServer>;
  auto* const stream = new GrpcServerStream<FromWorker, FromServer>(live);
  auto call =
      std::make_unique<Relayed>(tap->ServerAddress(shard), method,
                                tap->Admit(membership), observer, stream);
  auto front = std::make_unique<typename Relayed::Front>(call.get());
  tap->Keep(std::move(call));
  stream->Start(std::move(front), kDefaultLimits.handshake_timeout);
  return stream;
}

class RendezvousTap final
    : public Rendezvous::WithRawCallbackMethod_Membership<Rendezvous::Service>,
      public CallObserver<WorkerReport, CoordinatorOrder> {
 public:
  explicit RendezvousTap(WireTap* tap) : tap_(tap) {}
  ~RendezvousTap() override { live_->AwaitNone(); }

  Reactor* Membership(grpc::CallbackServerContext*) override {
    return Relay<WorkerReport, CoordinatorOrder>(
        "/tributary.Rendezvous/Membership", /*shard=*/0, /*membership=*/true,
        live_, this, tap_);
  }

  bool OnWorker(const void*, const WorkerReport& report) override {
    tap_->conversation()->OnReport(report);
    return true;
  }
  bool OnServer(CoordinatorOrder* order) override {
    tap_->Rewrite(order);
    tap_->conversation()->OnOrder(*order);
    return true;
  }
  void OnEnd(const void*, const absl::Status& status) override {
    tap_->conversation()->OnMembershipEnd(status);
  }

 private:
  WireTap* const tap_;
  const std::shared_ptr<LiveCalls> live_ = std::make_shared<LiveCalls>();
};

class ExchangeTap final
    : public ParameterServer::WithRawCallbackMethod_Exchange<
          ParameterServer::Service>,
      public CallObserver<WorkerMessage, ServerMessage> {
 public:
  ExchangeTap(WireTap* tap, int shard) : tap_(tap), shard_(shard) {}
  ~ExchangeTap() override { live_->AwaitNone(); }

  Reactor* Exchange(grpc::CallbackServerContext*) override {
    return Relay<WorkerMessage, ServerMessage>(
        "/tributary.ParameterServer/Exchange", shard_, /*membership=*/false,
        live_, this, tap_);
  }

  bool OnWorker(const void* call, const WorkerMessage& message) override {
    tap_->conversation()->OnWorkerMessage(call, message);
    return !message.has_initial() || !tap_->drops_initial();
  }
  bool OnServer(ServerMessage* message) override {
    if (message->has_weights() &&
        tap_->MustHold(shard_, message->weights().version())) {
      return false;
    }
    tap_->conversation()->OnServerMessage(*message);
    return true;
  }
  void OnEnd(const void* call, const absl::Status& status) override {
    tap_->conversation()->OnExchangeEnd(call, status);
  }

 private:
  WireTap* const tap_;
  const int shard_;
  const std::shared_ptr<LiveCalls> live_ = std::make_shared<LiveCalls>();
};

}  // namespace

WireTap::WireTap(int servers, Conversation* conversation)
    : conversation_(conversation), servers_(servers) {}

absl::StatusOr<std::unique_ptr<WireTap>> WireTap::Start(
    int servers, const Security& security, Conversation* conversation,
    Logger* log) {
  auto tap = absl::WrapUnique(new WireTap(servers, conversation));
  for (int shard = 0; shard < servers; ++shard) {
    std::vector<grpc::Service*> services;
    const auto add = [&](std::unique_ptr<grpc::Service> service) {
      services.push_back(service.get());
      tap->services_.push_back(std::move(service));
    };
    if (shard == 0) add(std::make_unique<RendezvousTap>(tap.get()));
    add(std::make_unique<ExchangeTap>(tap.get(), shard));
    Listener::Options options;
    options.network = "127.0.0.1:0";
    options.unix_socket = MakeLocalAddress().address();
    options.security = security;
    options.log = log;
    TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Listener> listener,
                               Listener::Start(options, services));
    listener->SetReady(true);
    tap->addresses_.push_back(listener->address());
    tap->listeners_.push_back(std::move(listener));
  }
  return tap;
}

WireTap::~WireTap() {
  const absl::Status end = absl::UnavailableError("the scenario has ended");
  Break(end);
  listeners_.clear();
  // Also ends a call that began meanwhile.
  Break(end);
  for (Call* const call : calls()) call->AwaitDone();
  // Waits until the worker's ends of the calls are closed.
  services_.clear();
}

std::vector<Call*> WireTap::calls() const {
  absl::MutexLock lock(&mu_);
  std::vector<Call*> calls;
  for (const auto& call : calls_) calls.push_back(call.get());
  return calls;
}

void WireTap::Connect(std::vector<std::string> servers) {
  absl::MutexLock lock(&mu_);
  servers_ = std::move(servers);
}

void WireTap::Break(const absl::Status& status) {
  {
    absl::MutexLock lock(&mu_);
    refusal_ = status;
    refuses_once_ = false;
  }
  conversation_->OnBroken(status);
  for (Call* const call : calls()) call->Break(status);
}

void WireTap::RefuseOnce(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  refusal_ = status;
  refuses_once_ = true;
}

void WireTap::Allow() {
  absl::MutexLock lock(&mu_);
  refusal_ = absl::OkStatus();
}

int WireTap::memberships() const {
  absl::MutexLock lock(&mu_);
  return memberships_;
}

void WireTap::DropInitial() {
  absl::MutexLock lock(&mu_);
  drops_initial_ = true;
}

bool WireTap::drops_initial() const {
  absl::MutexLock lock(&mu_);
  return drops_initial_;
}

void WireTap::Hold(int64_t version) {
  absl::MutexLock lock(&mu_);
  hold_ = version;
}

void WireTap::Release() {
  {
    absl::MutexLock lock(&mu_);
    hold_.reset();
    holds_ = false;
  }
  for (Call* const call : calls()) call->Release();
}

bool WireTap::holds() const {
  absl::MutexLock lock(&mu_);
  return holds_;
}

absl::Status WireTap::Admit(bool membership) {
  absl::MutexLock lock(&mu_);
  if (membership) ++memberships_;
  if (!refuses_once_) return refusal_;
  if (!membership) return absl::OkStatus();
  refuses_once_ = false;
  return std::exchange(refusal_, absl::OkStatus());
}

std::string WireTap::ServerAddress(int shard) const {
  absl::MutexLock lock(&mu_);
  return servers_[shard];
}

void WireTap::Rewrite(CoordinatorOrder* order) const {
  if (!order->has_admission()) return;
  Admission* const admission = order->mutable_admission();
  for (int shard = 1; shard < admission->server_address_size(); ++shard) {
    admission->set_server_address(shard, addresses_[shard]);
  }
  admission->clear_local_address();
}

bool WireTap::MustHold(int shard, int64_t version) {
  absl::MutexLock lock(&mu_);
  if (shard != 0 || !hold_.has_value() || version < *hold_) return false;
  holds_ = true;
  return true;
}

void WireTap::Keep(std::unique_ptr<Call> call) {
  absl::MutexLock lock(&mu_);
  calls_.push_back(std::move(call));
}

}  // namespace tributary

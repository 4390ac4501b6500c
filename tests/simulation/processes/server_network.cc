#include "tests/simulation/processes/server_network.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/stream/replica_reader.h"
#include "common/stream/replica_stream.h"
#include "server/service/membership_session.h"
#include "server/service/weights_reader.h"
#include "tests/simulation/processes/server_process.h"
#include "tests/simulation/world/client_stream.h"

namespace tributary::simulation {
namespace {

// Peers notice the end of a call within this time.
constexpr absl::Duration kServerNotice = absl::Milliseconds(200);
// Time limit for connecting to the server that keeps the replicas.
constexpr absl::Duration kConnectTimeout = absl::Seconds(20);

// A server's stream to the coordinator, which records that it is open.
class WatchedStream final : public EnlistmentStream {
 public:
  WatchedStream(World* world, std::string name,
                std::unique_ptr<EnlistmentStream> stream, bool* open)
      : world_(world),
        name_(std::move(name)),
        stream_(std::move(stream)),
        open_(open) {
    *open_ = true;
  }
  ~WatchedStream() override { *open_ = false; }

  void Start(ClientSession<ServerOrder, ServerReport>* session) override {
    stream_->Start(session);
  }
  void Send(const ServerReport& report, OutgoingPayload payload,
            int64_t priority) override {
    stream_->Send(report, std::move(payload), priority);
  }
  void Wake() override { stream_->Wake(); }
  void HalfClose() override { stream_->HalfClose(); }
  void Cancel() override {
    world_->Violate(absl::StrCat(name_, " refuses an order"));
    stream_->Cancel();
  }
  void Resume() override { stream_->Resume(); }
  absl::Status AwaitDone() override {
    const absl::Status status = stream_->AwaitDone();
    *open_ = false;
    return status;
  }

 private:
  World* const world_;
  const std::string name_;
  const std::unique_ptr<EnlistmentStream> stream_;
  bool* const open_;
};

}  // namespace

int ShardAt(absl::string_view address) {
  (void)absl::ConsumePrefix(&address, "server-");
  return std::atoi(std::string(address).c_str());
}

std::unique_ptr<AttemptServices> SimulatedServerNetwork::MakeServices(
    Coordinator* coordinator, RunRecords*, ReplicaStore* replicas) {
  return std::make_unique<SimulatedServices>(this, coordinator, replicas);
}

absl::StatusOr<std::unique_ptr<EnlistmentStream>>
SimulatedServerNetwork::ConnectToCoordinator(
    absl::Duration timeout, const std::function<bool()>& stop) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::shared_ptr<Link> link,
      world_->AwaitConnection(
          process_->life(), [world = world_] { return world->servers[0]; },
          Service::kEnlistment, world_->loop.now() + timeout, stop));
  return std::make_unique<WatchedStream>(
      world_, process_->name(),
      std::make_unique<SimulatedClientStream<ServerOrder, ServerReport>>(
          world_, process_->life(), std::move(link)),
      &enlisted_);
}

absl::Status SimulatedServerNetwork::ReadWeights(const std::string& address,
                                                 int64_t version,
                                                 const ArenaLayout& layout,
                                                 size_t chunks, float* arena) {
  absl::StatusOr<std::shared_ptr<Link>> link = world_->AwaitConnection(
      process_->life(),
      [world = world_, shard = ShardAt(address)] {
        return world->servers[static_cast<size_t>(shard)];
      },
      Service::kReadWeights, /*deadline=*/world_->loop.now(),
      [] { return false; });
  const absl::Status read =
      link.ok()
          ? ReceiveWeights(
                std::make_unique<
                    SimulatedClientStream<ServerMessage, ReadWeightsRequest>>(
                    world_, process_->life(), *std::move(link)),
                address, version, layout, chunks, arena)
          : link.status();
  if (!absl::IsUnavailable(read)) return read;
  // A job whose weights are lost may fail with this error; see World::OnExit.
  return absl::UnavailableError(
      absl::StrCat("lost ", address, " and its part of the weights"));
}

SimulatedServices::SimulatedServices(SimulatedServerNetwork* network,
                                     Coordinator* coordinator,
                                     ReplicaStore* memory)
    : network_(network),
      world_(network->world_),
      coordinator_(coordinator),
      memory_(memory),
      scope_(network->process_->MakeScope("attempt")),
      weights_(network->shard_, world_->log),
      replicas_(network->shard_, memory),
      calls_(world_, scope_) {
  network_->services_ = this;
}

SimulatedServices::~SimulatedServices() {
  ShutDown(absl::ZeroDuration());
  network_->services_ = nullptr;
}

absl::StatusOr<std::string> SimulatedServices::Listen() {
  network_->process_->Listen(scope_);
  return absl::StrCat("server-", network_->shard_);
}

void SimulatedServices::ShutDown(absl::Duration timeout) {
  if (scope_->ended) return;
  network_->process_->Listen(nullptr);
  if (timeout > absl::ZeroDuration()) {
    CheckEnding();
    const auto over = [this] { return calls_.idle(); };
    absl::Mutex mu;
    absl::MutexLock lock(&mu);
    AwaitFor(&mu, absl::Condition(&over), timeout);
  }
  calls_.EndAll();
  Process::EndScope(scope_, kServerNotice);
}

void SimulatedServices::CheckEnding() {
  // If this coordinator was overtaken, the other one may have removed its
  // checkpoint.
  if (coordinator_ == nullptr ||
      coordinator_->AwaitEnding(absl::ZeroDuration()) !=
          Coordinator::Ending::kDamaged ||
      world_->ledger.newest_attempt() != coordinator_->GetStatus().attempt()) {
    return;
  }
  world_->Violate(absl::StrCat("P8: a server reports: ",
                               coordinator_->status().ToString()));
}

void SimulatedServices::Accept(Service service,
                               const std::shared_ptr<Link>& link) {
  if (network_->process_->listener() != scope_) {
    link->Close(absl::UnavailableError("the server is shutting down"));
    return;
  }
  // Simulated processes send correct messages, so refusing one is a violation.
  // Checked later, because the coordinator's lock may be held now.
  const auto refused = [this](const absl::Status& status) {
    if (absl::IsAborted(status)) return;
    world_->loop.After(
        absl::ZeroDuration(), scope_, "-refused", [this, status] {
          if (status == coordinator_->status()) return;
          world_->Violate(absl::StrCat("the coordinator refuses a report: ",
                                       status.ToString()));
        });
  };
  switch (service) {
    case Service::kMembership:
      calls_.Accept<WorkerReport, CoordinatorOrder>(
          link,
          [&](ServerStream<CoordinatorOrder>* stream) {
            return std::make_unique<MembershipSession>(coordinator_, stream);
          },
          refused);
      break;
    case Service::kEnlistment:
      calls_.Accept<ServerReport, ServerOrder>(
          link,
          [&](ServerStream<ServerOrder>* stream) {
            return std::make_unique<EnlistmentSession>(coordinator_, stream);
          },
          refused);
      break;
    case Service::kExchange:
      calls_.Accept<WorkerMessage, ServerMessage>(
          link,
          [&](ServerStream<ServerMessage>* stream) {
            return weights_.Exchange(stream);
          },
          [this](const absl::Status& status) {
            if (absl::IsAborted(status) || absl::IsUnavailable(status)) return;
            world_->Violate(
                absl::StrCat("server ", network_->shard_,
                             " refuses a worker: ", status.ToString()));
          });
      break;
    case Service::kReadWeights:
      AcceptCall<ReadWeightsRequest, ServerMessage>(
          link, [&](auto* stream) { return weights_.ReadWeights(stream); });
      break;
    case Service::kReplica:
      AcceptCall<JournalMessage, JournalAnswer>(
          link, [&](auto* stream) { return replicas_.Replicate(stream); });
      break;
    case Service::kReadReplica:
      AcceptCall<ReadJournalRequest, JournalMessage>(
          link, [&](auto* stream) { return replicas_.ReadJournal(stream); });
      break;
    case Service::kSaveState:
      AcceptCall<JournalMessage, JournalAnswer>(
          link, [&](auto* stream) { return replicas_.SaveState(stream); });
      break;
    case Service::kReadState:
      AcceptCall<ReadJournalRequest, JournalMessage>(
          link, [&](auto* stream) { return replicas_.ReadState(stream); });
      break;
    case Service::kMember:
    case Service::kTransfer:
      break;  // For workers only.
  }
}

template <typename In, typename Out, typename MakeSession>
void SimulatedServices::AcceptCall(const std::shared_ptr<Link>& link,
                                   const MakeSession& make) {
  calls_.Accept<In, Out>(link, make, [](const absl::Status&) {});
}

std::unique_ptr<ReplicaStream> SimulatedServices::Open(
    const std::string& address, const JournalHello& hello,
    std::function<void(const absl::Status&)> lost) {
  using Stream = SimulatedClientStream<JournalAnswer, JournalMessage>;
  return StartReplicaStream(
      std::make_unique<Stream>(
          world_, scope_,
          [this, shard = ShardAt(address)](Stream::Connected done) {
            world_->Connect(
                scope_,
                [world = world_, shard] { return world->servers[shard]; },
                Service::kReplica, world_->loop.now() + kConnectTimeout,
                std::move(done));
          }),
      address, hello, std::move(lost));
}

absl::Status SimulatedServices::Fetch(const std::string& address,
                                      const ReadJournalRequest& request,
                                      const ReplicaTarget& to) {
  // The call belongs to the process, because the end of the attempt does not
  // cancel it.
  const std::shared_ptr<Life> process = scope_->root()->shared_from_this();
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::shared_ptr<Link> link,
      world_->AwaitConnection(
          process,
          [world = world_, shard = ShardAt(address)] {
            return world->servers[static_cast<size_t>(shard)];
          },
          Service::kReadReplica, /*deadline=*/world_->loop.now(),
          [] { return false; }));
  return ReceiveReplica(
      std::make_unique<
          SimulatedClientStream<JournalMessage, ReadJournalRequest>>(
          world_, process, std::move(link)),
      address, request, to);
}

}  // namespace tributary::simulation

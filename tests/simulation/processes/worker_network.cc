#include "tests/simulation/processes/worker_network.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/stream/replica_reader.h"
#include "common/stream/replica_stream.h"
#include "tests/simulation/world/client_stream.h"

namespace tributary::simulation {
namespace {

// Time limit for connecting to the server that keeps the state.
constexpr absl::Duration kStateTimeout = absl::Seconds(20);
// Time limit for a call to a worker that was reached before.
constexpr absl::Duration kStageTimeout = absl::Seconds(1);

// Returns N for "server-N".
size_t ShardNumber(absl::string_view address) {
  (void)absl::ConsumePrefix(&address, "server-");
  return static_cast<size_t>(std::atoi(std::string(address).c_str()));
}

// A membership stream that records what the worker does.
class WatchedWorkerStream final : public MembershipStream {
 public:
  WatchedWorkerStream(World* world, std::unique_ptr<MembershipStream> stream,
                      std::string* activity)
      : world_(world), stream_(std::move(stream)), activity_(activity) {
    *activity_ = "joining";
  }
  ~WatchedWorkerStream() override { *activity_ = "between stays"; }

  void Start(ClientSession<CoordinatorOrder, WorkerReport>* session) override {
    stream_->Start(session);
  }
  void Send(const WorkerReport& report, OutgoingPayload payload,
            int64_t priority) override {
    if (report.has_heartbeat()) {
      *activity_ = absl::StrCat("phase ", report.heartbeat().phase(), ", step ",
                                report.heartbeat().step(), evaluating_);
    }
    if (report.has_evaluation()) {
      evaluating_ =
          absl::StrCat(", evaluating ", report.evaluation().version());
      if (world_->sabotage.lost_evaluation) return;
    }
    stream_->Send(report, std::move(payload), priority);
  }
  void Wake() override { stream_->Wake(); }
  void HalfClose() override { stream_->HalfClose(); }
  void Cancel() override { stream_->Cancel(); }
  void Resume() override { stream_->Resume(); }
  absl::Status AwaitDone() override { return stream_->AwaitDone(); }

 private:
  World* const world_;
  const std::unique_ptr<MembershipStream> stream_;
  std::string* const activity_;
  std::string
      evaluating_;  // The newest version of which it has evaluated a piece.
};

}  // namespace

void SimulatedWorkerNetwork::Accept(Service service,
                                    const std::shared_ptr<Link>& link) {
  if (service == Service::kMember) {
    members_.Accept(link);
  } else if (transfers_ != nullptr) {
    transfers_->Accept(link);
  } else {
    link->Close(absl::UnavailableError("connection refused"));
  }
}

absl::StatusOr<std::unique_ptr<MembershipStream>>
SimulatedWorkerNetwork::ConnectToCoordinator(
    const std::string&, absl::Duration timeout,
    const std::function<bool()>& stop) {
  activity_ = "connecting";
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::shared_ptr<Link> link,
      world_->AwaitConnection(
          process_, [world = world_] { return world->servers[0]; },
          Service::kMembership, world_->loop.now() + timeout, stop));
  return std::make_unique<WatchedWorkerStream>(
      world_,
      std::make_unique<SimulatedClientStream<CoordinatorOrder, WorkerReport>>(
          world_, process_, std::move(link)),
      &activity_);
}

absl::StatusOr<std::unique_ptr<ExchangeStream>>
SimulatedWorkerNetwork::ConnectToServer(const std::string& address,
                                        absl::Time deadline,
                                        const std::function<bool()>& stop) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::shared_ptr<Link> link,
      world_->AwaitConnection(
          process_,
          [world = world_, shard = ShardNumber(address)] {
            return world->servers[shard];
          },
          Service::kExchange, deadline, stop));
  const Scenario& scenario = world_->scenario;
  ClientFaults faults;
  faults.reordered = scenario.reordered;
  // In asynchronous mode each contribution has one outcome.
  faults.repeated = scenario.asynchronous() ? 0 : scenario.repeated;
  faults.late_rows = scenario.late_rows;
  return std::make_unique<SimulatedClientStream<ServerMessage, WorkerMessage>>(
      world_, process_, std::move(link), faults);
}

std::unique_ptr<ReplicaStream> SimulatedWorkerNetwork::OpenReplicaStream(
    const std::string& address, const JournalHello& hello,
    std::function<void(const absl::Status&)> lost) {
  using Stream = SimulatedClientStream<JournalAnswer, JournalMessage>;
  return StartReplicaStream(
      std::make_unique<Stream>(
          world_, process_,
          [world = world_, process = process_](Stream::Connected done) {
            world->Connect(
                process, [world] { return world->servers[0]; },
                Service::kSaveState, world->loop.now() + kStateTimeout,
                std::move(done));
          }),
      address, hello, std::move(lost));
}

absl::Status SimulatedWorkerNetwork::ReadReplica(
    const std::string& address, const ReadJournalRequest& request,
    Snapshot* snapshot) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::shared_ptr<Link> link,
      world_->AwaitConnection(
          process_, [world = world_] { return world->servers[0]; },
          Service::kReadState, world_->loop.now() + kStateTimeout,
          [] { return false; }));
  return ReceiveReplica(
      std::make_unique<
          SimulatedClientStream<JournalMessage, ReadJournalRequest>>(
          world_, process_, std::move(link)),
      address, request, {snapshot, {}});
}

absl::StatusOr<std::unique_ptr<StagePort>>
SimulatedWorkerNetwork::AcceptTransfers(const StageHost::Options&) {
  return std::make_unique<TransferPort>(world_, process_, &transfers_);
}

absl::StatusOr<StageCaller> SimulatedWorkerNetwork::ConnectToStage(
    const std::string& address, absl::Time deadline,
    const std::function<bool()>& stop) {
  Process* const peer = world_->Find(address);
  while (!world_->Reaches(process_->process, *peer)) {
    if (stop() || world_->loop.now() > deadline) {
      return absl::UnavailableError("no process accepts the call");
    }
    Sleep(
        world_->random.Between(absl::Milliseconds(5), absl::Milliseconds(100)));
  }
  using Stream = SimulatedClientStream<StageReply, StageMessage>;
  return [world = world_, process = process_, peer]() {
    return std::make_unique<Stream>(
        world, process, [world, process, peer](Stream::Connected done) {
          world->Connect(
              process, [peer] { return peer; }, Service::kTransfer,
              world->loop.now() + kStageTimeout, std::move(done));
        });
  };
}

}  // namespace tributary::simulation

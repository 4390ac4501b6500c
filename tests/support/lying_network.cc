#include "tests/support/lying_network.h"

#include <utility>

#include "common/transport/security.h"

namespace tributary {
namespace {

// A stream whose messages a function changes before they are sent.
template <typename In, typename Out>
class ChangedStream final : public ClientStream<In, Out> {
 public:
  // `change` returns false to drop a message.
  using Change =
      std::function<bool(ClientStream<In, Out>*, Out*, OutgoingPayload*)>;
  ChangedStream(std::unique_ptr<ClientStream<In, Out>> stream, Change change)
      : stream_(std::move(stream)), change_(std::move(change)) {}

  using ClientStream<In, Out>::Send;
  void Send(const Out& message, OutgoingPayload payload,
            int64_t priority) override {
    Out changed = message;
    if (!change_(stream_.get(), &changed, &payload)) return;
    stream_->Send(changed, std::move(payload), priority);
  }
  void Start(ClientSession<In, Out>* session) override {
    stream_->Start(session);
  }
  void Wake() override { stream_->Wake(); }
  void HalfClose() override { stream_->HalfClose(); }
  void Cancel() override { stream_->Cancel(); }
  void Resume() override { stream_->Resume(); }
  absl::Status AwaitDone() override { return stream_->AwaitDone(); }

 private:
  const std::unique_ptr<ClientStream<In, Out>> stream_;
  const Change change_;
};

}  // namespace

LyingNetwork::LyingNetwork(Lies lies)
    : lies_(std::move(lies)), honest_(MakeGrpcWorkerNetwork(Security())) {}

LyingNetwork::~LyingNetwork() = default;

void LyingNetwork::Report(const WorkerReport& report) {
  absl::MutexLock lock(&mu_);
  membership_->Send(report);
}

bool LyingNetwork::Change(WorkerReport* report) {
  const bool keep = !lies_.report || lies_.report(report);
  if (report->has_ready() && !ready_.HasBeenNotified()) ready_.Notify();
  return keep;
}

absl::StatusOr<std::unique_ptr<MembershipStream>>
LyingNetwork::ConnectToCoordinator(const std::string& address,
                                   absl::Duration timeout,
                                   const std::function<bool()>& stop) {
  {
    absl::MutexLock lock(&mu_);
    if (std::exchange(joined_, true)) {
      return absl::FailedPreconditionError("it does not join again");
    }
  }
  absl::StatusOr<std::unique_ptr<MembershipStream>> stream =
      honest_->ConnectToCoordinator(address, timeout, stop);
  if (!stream.ok()) return stream;
  absl::MutexLock lock(&mu_);
  membership_ = stream->get();
  return std::make_unique<ChangedStream<CoordinatorOrder, WorkerReport>>(
      *std::move(stream), [this](MembershipStream*, WorkerReport* report,
                                 OutgoingPayload*) { return Change(report); });
}

absl::StatusOr<std::unique_ptr<ExchangeStream>> LyingNetwork::ConnectToServer(
    const std::string& address, absl::Time deadline,
    const std::function<bool()>& stop) {
  absl::StatusOr<std::unique_ptr<ExchangeStream>> stream =
      honest_->ConnectToServer(address, deadline, stop);
  if (!stream.ok() || !lies_.message) return stream;
  return std::make_unique<ChangedStream<ServerMessage, WorkerMessage>>(
      *std::move(stream), [this](ExchangeStream* to, WorkerMessage* message,
                                 OutgoingPayload* payload) {
        return lies_.message(
            message, payload,
            [to](const WorkerMessage& further, OutgoingPayload values) {
              to->Send(further, std::move(values), /*priority=*/-1);
            },
            this);
      });
}

std::unique_ptr<ReplicaStream> LyingNetwork::OpenReplicaStream(
    const std::string& address, const JournalHello& hello,
    std::function<void(const absl::Status&)> lost) {
  return honest_->OpenReplicaStream(address, hello, std::move(lost));
}

absl::Status LyingNetwork::ReadReplica(const std::string& address,
                                       const ReadJournalRequest& request,
                                       Snapshot* snapshot) {
  return honest_->ReadReplica(address, request, snapshot);
}

absl::StatusOr<std::unique_ptr<PeerMesh>> LyingNetwork::ConnectToMembers(
    const GlooMeshOptions& options) {
  return honest_->ConnectToMembers(options);
}

absl::StatusOr<std::unique_ptr<StagePort>> LyingNetwork::AcceptTransfers(
    const StageHost::Options& options) {
  return honest_->AcceptTransfers(options);
}

absl::StatusOr<StageCaller> LyingNetwork::ConnectToStage(
    const std::string& address, absl::Time deadline,
    const std::function<bool()>& stop) {
  return honest_->ConnectToStage(address, deadline, stop);
}

}  // namespace tributary

#include "tests/simulation/processes/coordinator_process.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/transport/channel.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_files.h"
#include "server/service/coordinator_sessions.h"
#include "tests/simulation/processes/model_state.h"
#include "tests/simulation/world/streams.h"

namespace tributary::simulation {
namespace {

// The same values as in server/process/coordinator_process.cc.
constexpr absl::Duration kTick = absl::Milliseconds(100);
constexpr absl::Duration kFencingInterval = absl::Seconds(1);
constexpr absl::Duration kDrainTimeout = absl::Seconds(5);
constexpr absl::Duration kCutTimeout = absl::Milliseconds(200);
constexpr absl::Duration kRecoveryTimeout = absl::Seconds(5);

}  // namespace

// Records in the ledger what the checkpointer commits.
class CoordinatorProcess::RecordingSink final : public CheckpointCommitter {
 public:
  RecordingSink(World* world, int64_t attempt, CheckpointCommitter* sink)
      : world_(world), attempt_(attempt), sink_(sink) {}
  void MakeFolder(int64_t step) override { sink_->MakeFolder(step); }
  void Commit(const std::string& folder,
              const CheckpointManifest& manifest) override {
    world_->loop.Trace("attempt ", attempt_, " commits version ",
                       manifest.version());
    world_->ledger.AddCommit(attempt_, manifest);
    sink_->Commit(folder, manifest);
  }
  void Discard(const std::string& folder) override { sink_->Discard(folder); }
  void Warn(int64_t step, const std::string& message) override {
    world_->loop.Trace("no checkpoint at step ", step, ": ", message);
  }

 private:
  World* const world_;
  const int64_t attempt_;
  CheckpointCommitter* const sink_;
};

// Destroyed in the same order as in RunAttempt: server, checkpointer,
// coordinator.
struct CoordinatorProcess::Attempt {
  ~Attempt() {
    server.reset();
    if (checkpointer != nullptr) checkpointer->Stop();
  }

  class LocalLink final : public ServerLink {
   public:
    explicit LocalLink(Attempt* attempt) : attempt_(attempt) {}
    void Send(const ServerOrder& order) override {
      (void)attempt_->server->local.Handle(order);
    }
    void Close(const absl::Status&) override {}

   private:
    Attempt* const attempt_;
  };

  std::shared_ptr<Life> scope;
  std::unique_ptr<ProcessDisk> disk;
  std::unique_ptr<ThreadedCheckpointCommitter> checkpointer;
  std::unique_ptr<RecordingSink> sink;
  std::unique_ptr<Coordinator> coordinator;
  std::unique_ptr<ServedCalls> calls;
  LocalLink link{this};
  std::unique_ptr<ServerAttempt> server;
};

CoordinatorProcess::CoordinatorProcess(World* world, std::string name,
                                       int number)
    : Process(world, std::move(name), number) {}

CoordinatorProcess::~CoordinatorProcess() = default;

ServerAttempt* CoordinatorProcess::server() const {
  return attempt_ == nullptr ? nullptr : attempt_->server.get();
}

void CoordinatorProcess::CrashAtDiskCall(int64_t calls) {
  if (attempt_ == nullptr || attempt_->disk == nullptr) return;
  if (calls % 2 == 0) {
    attempt_->disk->CrashAfter(calls / 2);
  } else {
    attempt_->server->disk.CrashAfter(calls / 2);
  }
}

void CoordinatorProcess::OnStart() {
  options_.job = world_->scenario.job;
  options_.output_directory = world_->disk_folder();
  options_.resume = true;
  options_.log = world_->log;
  chooser_.emplace(options_);
  replicas_ = std::make_unique<ReplicaStore>();
  attempt_number_ = 0;
  history_ = AttemptHistory();
  data_.reset();
  draining_ = false;
  wait_ = absl::ZeroDuration();
  expected_workers_ = world_->scenario.expected_workers;
  start_timeout_ = absl::Seconds(20);
  world_->servers[0] = this;
  world_->loop.After(world_->network.Latency(), life(), "begin", [this] {
    absl::StatusOr<std::unique_ptr<RunOutput>> output =
        RunOutput::Create(world_->run_folder(), world_->log);
    if (!output.ok()) {
      Exit(output.status());
      return;
    }
    output_ = *std::move(output);
    BeginAttempt();
  });
}

void CoordinatorProcess::OnCrash() {
  attempt_.reset();
  replicas_.reset();
  output_.reset();
}

void CoordinatorProcess::BeginAttempt() {
  if (attempt_number_ > 0) {
    const absl::Status current = output_->CheckAttempt(attempt_number_);
    if (absl::IsFailedPrecondition(current)) {
      Exit(current);
      return;
    }
  }
  const absl::StatusOr<int64_t> next = output_->NextAttempt();
  if (!next.ok()) {
    Exit(next.status());
    return;
  }
  attempt_number_ = *next;
  const Scenario& scenario = world_->scenario;
  const std::string folder = CheckpointsFolder(world_->disk_folder());
  absl::StatusOr<std::optional<ResumePoint>> resume = chooser_->Choose();
  if (!resume.ok()) {
    Exit(resume.status());
    return;
  }
  resumed_from_ = resume->has_value() ? (*resume)->folder : "";
  world_->loop.Trace("attempt ", attempt_number_, " begins from ",
                     resume->has_value() ? (*resume)->manifest.version() : 0);
  world_->ledger.AddAttempt(
      attempt_number_, resume->has_value() ? &(*resume)->manifest : nullptr);
  attempt_began_ = looked_ = world_->loop.now();
  result_deadline_.reset();
  attempt_ = std::make_unique<Attempt>();
  Attempt* const attempt = attempt_.get();
  attempt->scope = MakeScope(absl::StrCat(attempt_number_));
  attempt->calls = std::make_unique<ServedCalls>(world_, attempt->scope);
  attempt->server = std::make_unique<ServerAttempt>(
      world_, /*shard=*/0, attempt->scope, replicas_.get(),
      [attempt](const ServerReport& report) {
        const absl::Status status =
            attempt->coordinator->OnServerReport(/*shard=*/0, report);
        if (!status.ok()) attempt->coordinator->Fail(status);
      });
  ThreadedCheckpointCommitter::Options checkpoints;
  checkpoints.folder = folder;
  checkpoints.retention = {scenario.job.checkpoint().keep_last(),
                           scenario.job.checkpoint().keep_every()};
  attempt->disk = std::make_unique<ProcessDisk>(
      &world_->loop, &world_->disk, &world_->disk_fault, attempt->scope,
      [this](const std::string& to) { CheckName(to); });
  checkpoints.files = attempt->disk.get();
  checkpoints.before_commit = [this, number = attempt_number_] {
    return output_->CheckAttempt(number);
  };
  checkpoints.log = world_->log;
  attempt->checkpointer = std::make_unique<ThreadedCheckpointCommitter>(
      std::move(checkpoints),
      ServerAttempt::MakeExecutor(world_, attempt->scope, /*threads=*/1));
  attempt->sink = std::make_unique<RecordingSink>(world_, attempt_number_,
                                                  attempt->checkpointer.get());
  Coordinator::Options options;
  options.job = scenario.job;
  options.servers = scenario.servers;
  options.expected_workers = expected_workers_;
  options.start_timeout = start_timeout_;
  options.lease = scenario.lease;
  options.attempt = attempt_number_;
  options.data = data_;
  options.resume = *std::move(resume);
  options.checkpoints = attempt->sink.get();
  options.resume_from_memory = history_.trusts_memory();
  options.run = output_->RunId(/*begins=*/false);
  options.on_begin = [this](const Beginning& beginning) {
    if (!beginning.holders.empty()) {
      world_->loop.Trace("attempt ", attempt_number_, " begins from memory, ",
                         beginning.version);
      ++world_->injected["begun from memory"];
      world_->ledger.SetFromMemory(attempt_number_, beginning.version);
    }
  };
  attempt->coordinator = std::make_unique<Coordinator>(
      options, [world = world_] { return world->loop.now(); },
      [](const std::string&) {});
  attempt->checkpointer->SetCoordinator(attempt->coordinator.get());
  Enlist enlist;
  enlist.set_protocol_version(kProtocolVersion);
  if (auto holdings = replicas_->Holdings()) {
    *enlist.mutable_journal() = *std::move(holdings);
  }
  (void)attempt->coordinator->AddServer(enlist, &attempt->link);
  listener_ = attempt->scope;
  Tick();
}

void CoordinatorProcess::Accept(Service service,
                                const std::shared_ptr<Link>& link) {
  Attempt* const attempt = attempt_.get();
  // Checked later, because the coordinator's lock may be held now.
  const auto refused = [this, attempt](const absl::Status& status) {
    if (absl::IsAborted(status)) return;
    world_->loop.After(
        absl::ZeroDuration(), attempt->scope, "-refused",
        [this, attempt, status] {
          if (status == attempt->coordinator->status()) return;
          world_->Violate(absl::StrCat("the coordinator refuses a report: ",
                                       status.ToString()));
        });
  };
  switch (service) {
    case Service::kMembership:
      attempt->calls->Accept<WorkerReport, CoordinatorOrder>(
          link,
          [&](ServerStream<CoordinatorOrder>* stream) {
            return std::make_unique<MembershipSession>(
                attempt->coordinator.get(), stream);
          },
          refused);
      break;
    case Service::kEnlistment:
      attempt->calls->Accept<ServerReport, ServerOrder>(
          link,
          [&](ServerStream<ServerOrder>* stream) {
            return std::make_unique<EnlistmentSession>(
                attempt->coordinator.get(), stream);
          },
          refused);
      break;
    case Service::kExchange:
      attempt->server->streams.Accept(link);
      break;
    case Service::kReplica:
      attempt->server->replicas.Accept(link);
      break;
    case Service::kSaveState:
      attempt->server->replicas.AcceptWorker(link);
      break;
    case Service::kReadState:
      attempt->server->replicas.AcceptReader(link);
      break;
    case Service::kMember:
      break;  // For workers only.
  }
}

void CoordinatorProcess::Tick() {
  Coordinator* const coordinator = attempt_->coordinator.get();
  coordinator->Tick();
  if (world_->loop.now() - looked_ > kFencingInterval) {
    looked_ = world_->loop.now();
    const absl::Status current = output_->CheckAttempt(attempt_number_);
    if (absl::IsFailedPrecondition(current)) coordinator->Overtaken(current);
  }
  if (draining_) coordinator->Drain();
  const Coordinator::Ending ending =
      coordinator->AwaitEnding(absl::ZeroDuration());
  world_->loop.After(kTick, attempt_->scope, "-tick", [this, ending] {
    ending == Coordinator::Ending::kNone ? Tick() : OnEnding(ending);
  });
}

void CoordinatorProcess::OnEnding(Coordinator::Ending ending) {
  Coordinator* const coordinator = attempt_->coordinator.get();
  const absl::Status status = coordinator->status();
  if (const auto data = coordinator->data()) data_ = data;
  world_->loop.Trace("attempt ", attempt_number_,
                     " ends: ", static_cast<int>(ending), " ",
                     status.ToString());
  switch (ending) {
    case Coordinator::Ending::kDamaged:
      // If this coordinator was overtaken, the other one may have removed its
      // checkpoint.
      if (world_->ledger.newest_attempt() == attempt_number_) {
        world_->Violate(
            absl::StrCat("P8: a server reports: ", status.ToString()));
      }
      chooser_->SetDamaged(resumed_from_);
      [[fallthrough]];
    case Coordinator::Ending::kRolledBack: {
      history_.Add(coordinator->has_trained(), coordinator->memory_failed(),
                   world_->loop.now());
      if (!world_->scenario.all_reduce()) {
        expected_workers_ = std::clamp(coordinator->workers_at_ending(), 1,
                                       world_->scenario.expected_workers);
      }
      start_timeout_ = std::min(start_timeout_, kRecoveryTimeout);
      EndAttempt(kCutTimeout);
      world_->loop.After(NextWait(), life(), "go on",
                         [this] { BeginAttempt(); });
      return;
    }
    case Coordinator::Ending::kTrained: {
      if (!result_deadline_.has_value()) {
        result_deadline_ = world_->loop.now() + kDrainTimeout;
      }
      const absl::Status taken = TakeResult();
      // A server may still have to apply the last step.
      if (absl::IsFailedPrecondition(taken) &&
          world_->loop.now() < *result_deadline_) {
        world_->loop.After(kTick, attempt_->scope, "-result",
                           [this, ending] { OnEnding(ending); });
        return;
      }
      if (absl::IsCancelled(taken)) {
        EndAttempt(kCutTimeout);
        Exit(taken);
        return;
      }
      if (!taken.ok()) {
        coordinator->Fail(taken);
        coordinator->FinishServers();
        AwaitServersGone(world_->loop.now() + kDrainTimeout, taken);
        return;
      }
      break;
    }
    default:
      break;
  }
  coordinator->FinishServers();
  coordinator->ServerGone(0);
  AwaitServersGone(world_->loop.now() + kDrainTimeout,
                   ending == Coordinator::Ending::kDrained
                       ? absl::CancelledError("stopped by request")
                       : status);
}

void CoordinatorProcess::AwaitServersGone(absl::Time deadline,
                                          const absl::Status& status) {
  if (world_->loop.now() < deadline &&
      !attempt_->coordinator->AwaitServersGone(absl::ZeroDuration())) {
    world_->loop.After(kTick, attempt_->scope, "-goodbye",
                       [=] { AwaitServersGone(deadline, status); });
    return;
  }
  if (status.ok()) world_->done = true;
  EndAttempt(kCutTimeout);
  Exit(status);
}

absl::Status CoordinatorProcess::TakeResult() {
  Coordinator* const coordinator = attempt_->coordinator.get();
  const int64_t version = coordinator->final_version();
  absl::StatusOr<ModelState> result = ReadServers(world_, this, version);
  const absl::Status current = output_->CheckAttempt(attempt_number_);
  // Returns another code than FailedPrecondition, after which the caller reads
  // again.
  if (!current.ok()) {
    coordinator->Overtaken(current);
    return absl::CancelledError(current.message());
  }
  if (!result.ok()) {
    absl::StatusOr<ModelState> saved = ReadSaved(world_, version);
    if (saved.ok()) result = std::move(saved);
  }
  TRIBUTARY_RETURN_IF_ERROR(result.status());
  // Faults do not include a failure to write the model.
  TRIBUTARY_ASSIGN_OR_RETURN(
      const CheckpointManifest written,
      WriteFinal(world_, *result, coordinator->FinalManifest()));
  world_->ledger.AddCommit(attempt_number_, written);
  world_->result = std::move(result);
  world_->result_attempt = attempt_number_;
  world_->evaluation_loss = coordinator->GetStatus().evaluation_loss();
  world_->skipped = coordinator->GetStatus().skipped_steps();
  return absl::OkStatus();
}

void CoordinatorProcess::EndAttempt(absl::Duration notice) {
  listener_ = nullptr;
  EndLinks(attempt_->scope.get(), notice);
  // Destroying the attempt runs the tasks that its executors have queued.
  const std::shared_ptr<Life> scope = attempt_->scope;
  attempt_.reset();
  EndScope(scope, notice);
}

void CoordinatorProcess::CheckName(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  // Only names of checkpoints count: step-NNNNNNNN.
  if (!absl::StartsWith(name, "step-") || absl::StrContains(name, ".") ||
      world_->ledger.newest_attempt() <= attempt_number_) {
    return;
  }
  world_->Violate(absl::StrCat("P4: attempt ", attempt_number_, " commits ",
                               name, " after attempt ",
                               world_->ledger.newest_attempt(), " has begun"));
}

absl::Duration CoordinatorProcess::NextWait() {
  if (world_->loop.now() - attempt_began_ > absl::Seconds(10)) {
    wait_ = absl::ZeroDuration();
  }
  const absl::Duration wait = wait_;
  wait_ =
      std::min(absl::Seconds(1), std::max(absl::Milliseconds(50), 2 * wait_));
  return wait;
}

std::string CoordinatorProcess::State() const {
  if (!running()) return "not running";
  if (attempt_ == nullptr) return "between attempts";
  return absl::StrCat("attempt ", attempt_number_, ": ",
                      attempt_->coordinator->GetStatus().ShortDebugString());
}

}  // namespace tributary::simulation

#include "tests/simulation/processes/worker_stay.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/retry.h"
#include "common/job/rounds.h"
#include "common/transport/channel.h"
#include "tests/simulation/world/tiny_model.h"
#include "worker/state/create_work_state.h"

namespace tributary::simulation {
namespace {

constexpr int kBeatsPerLease = 10;
constexpr absl::Duration kEarlyBeat = absl::Milliseconds(250);
constexpr absl::Duration kLongestBeat = absl::Milliseconds(500);
// A step has few chunks and items; more turns without a pause mean an endless
// loop.
constexpr int kMostTurns = 1000;

}  // namespace

WorkerStay::WorkerStay(World* world, std::shared_ptr<Life> scope,
                       const Options& options,
                       std::function<void(const absl::Status&)> over)
    : world_(world),
      scope_(std::move(scope)),
      options_(options),
      over_(std::move(over)),
      arenas_(world->layout.arena_elements()) {
  world_->Connect(
      scope_, [world] { return world->servers[0]; }, Service::kMembership,
      world_->loop.now() + options_.connect_timeout,
      [this](absl::StatusOr<std::shared_ptr<Link>> link) {
        OnConnected(std::move(link));
      });
}

WorkerStay::~WorkerStay() = default;

void WorkerStay::OnConnected(absl::StatusOr<std::shared_ptr<Link>> link) {
  if (!link.ok()) {
    membership_gone_ = true;
    End(link.status());
    return;
  }
  phase_ = "joining";
  membership_ = *link;
  Link::Handlers handlers;
  handlers.message = [this](const Link::Message& message) {
    OnOrder(static_cast<const CoordinatorOrder&>(message));
  };
  handlers.gone = [this](const absl::Status& status) {
    OnMembershipGone(status);
  };
  membership_->SetHandlers(Link::kClient, std::move(handlers));
  WorkerReport report;
  report.mutable_join()->set_protocol_version(kProtocolVersion);
  report.mutable_join()->set_rank(options_.rank);
  report.mutable_join()->set_host("simulated");
  report.mutable_join()->set_pid(scope_->process);
  Report(report);
  Beat(kEarlyBeat);
}

void WorkerStay::Report(const WorkerReport& report) {
  if (!membership_gone_) membership_->Send(Link::kClient, report);
}

void WorkerStay::Beat(absl::Duration interval) {
  world_->loop.After(interval, scope_, "-beat", [this, interval] {
    if (membership_gone_ || ending_) return;
    const Rounds rounds(world_->scenario.job, world_->scenario.facts.steps());
    WorkerReport report;
    Heartbeat* const beat = report.mutable_heartbeat();
    beat->set_step(rounds.StepsAfter(std::max<int64_t>(0, round_)));
    beat->set_phase(!training_ ? "data" : busy_ ? "backward" : "exchange");
    ProcessStatistics* const statistics = beat->mutable_statistics();
    const double seconds = absl::ToDoubleSeconds(options_.micro_batch) *
                           static_cast<double>(micro_batches_);
    statistics->set_backward_seconds(seconds);
    statistics->set_compute_seconds(seconds);
    statistics->set_leaf_seconds(seconds);
    statistics->set_leaves(micro_batches_);
    statistics->set_threads(1);
    statistics->set_steps(std::max<int64_t>(0, round_));
    Report(report);
    Beat(admission_.has_value()
             ? std::min(
                   kLongestBeat,
                   absl::Milliseconds(admission_->lease_ms()) / kBeatsPerLease)
             : interval);
  });
}

void WorkerStay::OnOrder(const CoordinatorOrder& order) {
  if (ending_) return;
  if (order.has_admission()) {
    admission_ = order.admission();
    phase_ = "setting up";
    // Time to open the data and build the model.
    world_->loop.After(
        world_->random.Between(absl::Milliseconds(1), absl::Milliseconds(300)),
        scope_, "set up", [this] { SetUp(); });
    return;
  }
  if (order.has_finished() && order.finished().stopped()) stopped_ = true;
  if (state_ == nullptr) return;
  switch (order.order_case()) {
    case CoordinatorOrder::kOpen:
      if (order.open().initialize()) state_->RequestInitialize();
      if (!std::exchange(opened_, true)) {
        phase_ = "connecting to servers";
        streams_.resize(static_cast<size_t>(admission_->server_address_size()));
        ConnectNext();
      }
      break;
    case CoordinatorOrder::kDeal:
      state_->SetAssignment(order.deal());
      break;
    case CoordinatorOrder::kEvaluated:
      state_->SetEvaluated(order.evaluated().version());
      break;
    case CoordinatorOrder::kClaimed:
      state_->AddStepLease(order.claimed().step());
      break;
    case CoordinatorOrder::kFinished:
      if (stopped_) {
        Fail(absl::CancelledError("the job was stopped"));
        break;
      }
      finished_ = true;
      state_->SetFinished();
      break;
    default:
      break;
  }
  Poke();
}

void WorkerStay::OnMembershipGone(const absl::Status& status) {
  membership_gone_ = true;
  ended_ = status.ok() ? absl::UnavailableError("the coordinator has ended it")
                       : status;
  if (ending_) {
    over_(ended_);
    return;
  }
  if (state_ == nullptr || !opened_) {
    End(ended_);
    return;
  }
  Fail(finished_ ? absl::OutOfRangeError("the job is done") : ended_);
}

void WorkerStay::SetUp() {
  if (ending_) return;
  phase_ = "waiting for Open";
  const Scenario& scenario = world_->scenario;
  const Rounds rounds(admission_->job(), scenario.facts.steps());
  WorkState::Options options;
  options.steps = rounds.count();
  options.evaluates = scenario.facts.evaluation_pieces() > 0;
  options.evaluate_every =
      rounds.RoundsFor(admission_->job().evaluation().every_steps());
  state_ = CreateWorkState(admission_->job(), options, &world_->layout);
  state_->SetUnparked([this] { RetryParked(); });
  const auto chunks = static_cast<size_t>(world_->layout.chunk_count());
  for (std::vector<int64_t>& versions : versions_) versions.assign(chunks, -1);
  unanswered_.assign(chunks, 0);
  WorkerReport report;
  *report.mutable_ready()->mutable_table() = scenario.table;
  *report.mutable_ready()->mutable_data() = scenario.facts;
  Report(report);
}

void WorkerStay::Poke() {
  if (!training_ || busy_ || ending_ || std::exchange(poked_, true)) return;
  world_->loop.After(
      world_->random.Between(absl::Microseconds(1), absl::Microseconds(50)),
      scope_, "-work", [this] {
        poked_ = false;
        Work();
      });
}

void WorkerStay::Work() {
  for (int turn = 0; !busy_ && !ending_ && !finishing_; ++turn) {
    if (turn == kMostTurns) {
      world_->Violate(absl::StrCat("P5: ", scope_->name,
                                   " takes tasks that it gives up at once, ",
                                   "over and over: ", State()));
      return;
    }
    if (!task_.has_value()) {
      task_ = state_->TryNextForTest();
      if (!task_.has_value()) return;
      if (!Begin()) {
        task_.reset();
        continue;
      }
    }
    switch (AwaitWeights()) {
      case Presence::kMissing:
        return;
      case Presence::kGivenUp:
        task_.reset();
        continue;
      case Presence::kThere:
        break;
    }
    busy_ = true;
    const absl::Duration taken = world_->random.Between(
        options_.micro_batch / 2, options_.micro_batch * 1.5);
    world_->loop.After(taken, scope_, "-computed", [this] {
      busy_ = false;
      if (ending_) return;
      DoItem();
      Work();
    });
  }
}

bool WorkerStay::Begin() {
  const Task& task = *task_;
  item_ = 0;
  next_chunk_ = 0;
  switch (task.kind) {
    case Task::Kind::kInitialize:
      PushInitial();
      return false;
    case Task::Kind::kReportSynced: {
      phase_ = "synced";
      WorkerReport report;
      report.mutable_synced()->set_version(task.version);
      Report(report);
      return false;
    }
    case Task::Kind::kRequestStepLease: {
      WorkerReport report;
      report.mutable_claim();
      Report(report);
      return false;
    }
    case Task::Kind::kEvaluate:
      phase_ = absl::StrCat("evaluating ", task.version);
      return true;
    case Task::Kind::kTrain:
      break;
    case Task::Kind::kFinish:
      Finish();
      return false;
    case Task::Kind::kFail:
      End(state_->status());
      return false;
  }
  phase_ = absl::StrCat("training ", task.version);
  world_->loop.Trace(scope_->name, ": step ", task.version, ", leaves from ",
                     task.items.front(), " to ", task.items.back());
  round_ = std::max(round_, task.version);
  const JobSpec& job = admission_->job();
  const auto push = [this, step = task.version](NodeChunk sum) {
    sum.base_version = state_->BaseVersion(sum.chunk);
    Push(step, sum);
  };
  const bool hold_for_norm =
      world_->scenario.asynchronous() &&
      (job.clip_norm() > 0 || job.on_nonfinite() == JobSpec::SKIP);
  norm_gate_ = std::make_unique<NormGate>(&world_->layout,
                                          job.exchange().wire_dtype(), push);
  reducer_ = std::make_unique<SubtreeReducer>(
      &world_->layout, static_cast<int>(job.batch().micro_batches()),
      job.exchange().wire_dtype(), task.items,
      [this, push, hold_for_norm](NodeChunk sum) {
        hold_for_norm ? norm_gate_->Add(std::move(sum)) : push(std::move(sum));
      });
  return true;
}

// Returns false if the state's AwaitWeights would block now.
bool WorkerStay::MayAwait(int chunk) const {
  if (state_->GivenUp(*task_)) return true;
  if (world_->scenario.ordered()) {
    return versions_[task_->version % 2][static_cast<size_t>(chunk)] ==
           task_->version;
  }
  return !world_->scenario.asynchronous() ||
         task_->kind != Task::Kind::kTrain ||
         unanswered_[static_cast<size_t>(chunk)] == 0;
}

WorkerStay::Presence WorkerStay::AwaitWeights() {
  const ArenaLayout& layout = world_->layout;
  for (; next_chunk_ < layout.chunk_count(); ++next_chunk_) {
    if (!MayAwait(next_chunk_)) return Presence::kMissing;
    const int64_t begin = layout.ChunkBegin(next_chunk_);
    if (!state_->AwaitWeights(*task_, begin,
                              begin + layout.ChunkSize(next_chunk_))) {
      return Presence::kGivenUp;
    }
  }
  return Presence::kThere;
}

void WorkerStay::DoItem() {
  const Task& task = *task_;
  const ArenaLayout& layout = world_->layout;
  const int64_t item = task.items[item_];
  const float* const weights = state_->Weights(task.version);
  if (task.kind == Task::Kind::kEvaluate) {
    WorkerReport report;
    *report.mutable_evaluation() =
        EvaluatePiece(layout, task.version, item, weights);
    if (!world_->sabotage.lost_evaluation) Report(report);
  } else {
    const JobSpec& job = admission_->job();
    const Buffer gradient = arenas_.Take();
    MicroBatchGradient(job, layout, task.version, item, weights,
                       gradient.get());
    if (world_->sabotage.wrong_gradient && task.version == 5 && item == 0) {
      gradient.get()[0] += 0.01f;
    }
    const double loss = MicroBatchLoss(layout, item, weights);
    for (int chunk = layout.chunk_count() - 1; chunk >= 0; --chunk) {
      reducer_->ChunkReady(static_cast<int>(item), chunk, gradient,
                           MicroBatchSampleCount(job, task.version, item),
                           chunk == 0 ? loss : 0);
    }
    ++micro_batches_;
  }
  if (++item_ < task.items.size()) return;
  if (task.kind == Task::Kind::kTrain) {
    for (int& count : unanswered_) ++count;
  }
  state_->MarkDone(task);
  task_.reset();
}

void WorkerStay::Fail(const absl::Status& status) {
  state_->Fail(status);
  if (training_) {
    Poke();
  } else if (!ending_) {
    End(state_->status());
  }
}

void WorkerStay::End(const absl::Status& status) {
  if (std::exchange(ending_, true)) return;
  phase_ = absl::StrCat("ending: ", status.ToString());
  absl::Status ended = status;
  if (stopped_) ended = absl::CancelledError("the job was stopped");
  if (absl::IsOutOfRange(ended)) ended = absl::OkStatus();
  if (!ended.ok() && !IsTransient(ended)) {
    WorkerReport report;
    report.mutable_failure()->set_message(std::string(ended.message()));
    report.mutable_failure()->set_exit_code(1);
    if (membership_ != nullptr) Report(report);
  }
  for (Stream& stream : streams_) {
    if (stream.link != nullptr && !stream.gone) stream.link->Cancel();
    stream.gone = true;
  }
  if (!membership_gone_ && (ended.ok() || !IsTransient(ended))) {
    Link::Handlers handlers;
    handlers.gone = [this, ended](const absl::Status&) { over_(ended); };
    membership_->SetHandlers(Link::kClient, std::move(handlers));
    membership_->HalfClose();
    return;
  }
  if (!membership_gone_) membership_->Cancel();
  membership_gone_ = true;
  over_(ended);
}

std::string WorkerStay::State() const {
  return absl::StrCat(phase_, task_.has_value() ? ", in a task" : "",
                      busy_ ? ", busy" : "", ending_ ? ", ending" : "",
                      finished_ ? ", finished" : "");
}

}  // namespace tributary::simulation

#include "deploy/tools/tune/tuner.h"

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/text/counted.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/run_files.h"
#include "deploy/flags/thread_counts.h"
#include "deploy/flags/worker_count.h"
#include "deploy/launch/job/progress_display.h"
#include "deploy/tools/tune/journal/study_attributes.h"
#include "deploy/tools/tune/search/final_stage.h"
#include "deploy/tools/tune/search/population.h"
#include "deploy/tools/tune/study_runs.h"
#include "deploy/tools/tune/trial_job.h"
#include "deploy/tools/tune/tune_report.h"
#include "nlohmann/json.hpp"
#include "server/checkpoint/checkpoint_folder.h"
#include "worker/device/factory/device_factory.h"

namespace tributary {
namespace {

// How often the table is drawn.
constexpr absl::Duration kTick = absl::Milliseconds(500);

int64_t BeginOf(const Study& study, const Segment& segment) {
  if (segment.is_final()) return 0;
  return study.plan().StepsBefore(study.trials()[segment.trial].bracket,
                                  segment.rung);
}

// Returns the checkpoint of the run at this step.
absl::StatusOr<std::string> CheckpointOf(const std::string& run, int64_t step) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<CheckpointName> checkpoints,
                             ListCheckpoints(CheckpointsFolder(run)));
  for (const CheckpointName& checkpoint : checkpoints) {
    if (checkpoint.step == step) return checkpoint.path;
  }
  return absl::NotFoundError(
      absl::StrCat(run, ": has no checkpoint of step ", step));
}

// True if both segments belong to the same run.
bool IsSame(const Segment& a, const Segment& b) {
  return a.trial == b.trial && a.final_seed == b.final_seed;
}

// Names a segment for messages.
std::string NameOf(const Segment& segment) {
  return segment.is_final() ? absl::StrCat("trial ", segment.trial, ", seed + ",
                                           segment.final_seed)
                            : absl::StrCat("trial ", segment.trial);
}

// Appends to the journal, again if another process has written in between.
template <typename Append>
absl::Status Insist(const Append& append) {
  absl::Status status;
  do {
    status = append();
  } while (absl::IsAborted(status));
  return status;
}

}  // namespace

Tuner::Tuner(TuneStudy* study, TunerOptions options, SignalQueue* signals,
             TuneDisplay* display)
    : study_(*study),
      writer_(study),
      options_(std::move(options)),
      signals_(*signals),
      display_(*display),
      began_(absl::Now()),
      slots_(options_.parallel) {}

TuneEnd Tuner::Run() {
  absl::Status status;
  while (status.ok()) {
    if (signal_ == 0) {
      status = CheckTime();
      if (status.ok()) status = FillSlots();
      if (interrupt_ != 0) status = absl::OkStatus();
    }
    ShowProgress();
    const bool idle =
        FreeSlot() >= 0 && std::all_of(slots_.begin(), slots_.end(),
                                       [](const auto& run) { return !run; });
    if (!status.ok() || (idle && (signal_ != 0 || study_.Done()))) {
      break;
    }
    const int signal = interrupt_ != 0 ? std::exchange(interrupt_, 0)
                                       : signals_.Wait(Patience());
    if (signal != 0 && signal != SIGCHLD && signal_ == 0) signal_ = signal;
    status = AdvanceAll(signal);
  }
  slots_.clear();
  if (status.ok() && signal_ != 0) {
    return {StoppedBy(signal_), ExitCodeOfStop(signal_), signal_};
  }
  if (status.ok()) status = Insist([this] { return writer_.Finish(); });
  if (!status.ok()) return {status, ExitCodeOf(status)};
  RemoveModels();
  if (study_.Best().empty()) {
    return {
        absl::AbortedError(absl::StrCat(
            "no trial was completed",
            first_failure_.empty() ? "" : absl::StrCat("; ", first_failure_))),
        kExitFailed};
  }
  return {absl::OkStatus(), kExitDone};
}

void Tuner::ShowProgress() {
  const absl::Time now = absl::Now();
  if (now - shown_at_ < kTick) return;
  shown_at_ = now;
  display_.Update(Table());
}

absl::Duration Tuner::Patience() const {
  absl::Duration patience = kTick;
  for (const std::unique_ptr<TrialRun>& run : slots_) {
    if (run != nullptr) patience = std::min(patience, run->Patience());
  }
  return std::max(patience, absl::ZeroDuration());
}

int Tuner::FreeSlot() const {
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot] == nullptr) return static_cast<int>(slot);
  }
  return -1;
}

bool Tuner::IsRunning(const Segment& segment) const {
  return std::any_of(slots_.begin(), slots_.end(), [&](const auto& run) {
    return run != nullptr && IsSame(run->segment(), segment);
  });
}

absl::Status Tuner::CheckTime() {
  const BudgetSpec& budget = study_.search().budget();
  if (!budget.has_seconds() || study_.study().closed()) return absl::OkStatus();
  const absl::optional<absl::Time> began = BeginOfStudy(study_);
  if (!began.has_value() ||
      absl::Now() - *began < absl::Seconds(budget.seconds())) {
    return absl::OkStatus();
  }
  return Insist([this] { return writer_.Close(); });
}

absl::optional<Segment> Tuner::NextSegment(
    const std::vector<Segment>& skipped) {
  for (const Segment& segment : study_.Startable()) {
    if (IsRunning(segment) ||
        std::any_of(skipped.begin(), skipped.end(), [&](const Segment& other) {
          return IsSame(segment, other);
        })) {
      continue;
    }
    if (options_.leases == nullptr) return segment;
    const std::string owner = OwnerOf(study_, segment);
    if (owner.empty() || IsOwn(segment) ||
        !options_.leases->IsAlive(owner, MonotonicNow())) {
      return segment;
    }
  }
  return absl::nullopt;
}

bool Tuner::IsOwn(const Segment& segment) const {
  return options_.leases == nullptr ||
         OwnerOf(study_, segment) == options_.leases->id();
}

void Tuner::DropLostSegments() {
  for (std::unique_ptr<TrialRun>& run : slots_) {
    if (run == nullptr || IsOwn(run->segment())) continue;
    display_.Message(absl::StrCat(
        NameOf(run->segment()),
        ": another tuner has taken it over, because the lease of this one had "
        "ended"));
    run.reset();
  }
}

absl::Status Tuner::FillSlots() {
  TRIBUTARY_RETURN_IF_ERROR(study_.Read());
  DropLostSegments();
  std::vector<Segment> skipped;
  while (FreeSlot() >= 0) {
    const absl::optional<Segment> next = NextSegment(skipped);
    if (next.has_value()) {
      const absl::Status started = StartSegment(*next);
      if (absl::IsUnavailable(started)) {
        // Its former owner may not have let go of its folder yet.
        skipped.push_back(*next);
        const std::string message =
            absl::StrCat(NameOf(*next), " waits: ", started.message());
        if (waits_.insert(message).second) display_.Message(message);
      } else if (!absl::IsAborted(started)) {
        TRIBUTARY_RETURN_IF_ERROR(started);
      }
    } else if (study_.study().MayPropose()) {
      const absl::Status proposed = ProposeNext();
      if (!absl::IsAborted(proposed)) TRIBUTARY_RETURN_IF_ERROR(proposed);
    } else if (study_.study().Done() && study_.final_stage() != nullptr &&
               !study_.final_stage()->begun()) {
      TRIBUTARY_RETURN_IF_ERROR(Insist([this] {
        return study_.final_stage()->begun() ? absl::OkStatus()
                                             : writer_.BeginFinal();
      }));
    } else {
      break;
    }
  }
  return absl::OkStatus();
}

absl::Status Tuner::ProposeNext() {
  const int64_t population = study_.study().plan().population;
  if (population > 0 &&
      static_cast<int64_t>(study_.study().members().size()) >= population) {
    const Descendant next =
        Population(study_.search(), &study_.space()).Next(study_.study());
    return writer_.Propose(next.point, {{kParent, next.parent}});
  }
  if (!study_.search().sampler().has_optuna()) {
    return writer_.Propose(study_.NextPoint(),
                           nlohmann::ordered_json::object());
  }
  if (optuna_ == nullptr) {
    // A lost SIGCHLD does no harm: Advance always looks for ended children.
    TRIBUTARY_ASSIGN_OR_RETURN(
        optuna_, OptunaProposer::Start(options_.python, &study_, [this] {
          const int signal = signals_.Wait(absl::ZeroDuration());
          if (signal != SIGCHLD) interrupt_ = signal;
          return interrupt_ != 0;
        }));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const OptunaProposer::Proposal proposal,
                             optuna_->Propose());
  return writer_.Propose(proposal.point, proposal.attributes);
}

absl::StatusOr<JobLaunch> Tuner::MakeLaunch(const Segment& segment,
                                            int slot) const {
  JobLaunch launch;
  TRIBUTARY_ASSIGN_OR_RETURN(launch.job, JobOfSegment(study_, segment));
  const int64_t workers = std::min(options_.workers, MostComputing(launch.job));
  launch.workers = {workers, workers};
  launch.servers = options_.servers;
  launch.worker_device = options_.devices[slot];
  launch.server_device = options_.server_device;
  TRIBUTARY_ASSIGN_OR_RETURN(const DeviceName device,
                             ParseDeviceName(launch.worker_device));
  launch.threads = static_cast<int>(
      options_.threads > 0
          ? options_.threads
          : DefaultWorkerThreads(launch.job, workers * options_.parallel,
                                 device));
  launch.server_threads = ServerThreads(options_.servers * options_.parallel);
  launch.output = study_.folder().RunOf(segment);
  const int64_t parent = study_.study().trials()[segment.trial].parent;
  if (parent >= 0) {
    TRIBUTARY_ASSIGN_OR_RETURN(launch.resume,
                               CheckpointOf(study_.folder().Trial(parent),
                                            BeginOf(study_.study(), segment)));
    launch.allow_job_changes = true;
  }
  launch.worker_command = options_.worker_command;
  launch.worker_folder = options_.worker_folder;
  launch.data_cache = options_.data_cache;
  launch.max_restarts = options_.max_restarts;
  launch.log = options_.log;
  return launch;
}

absl::Status Tuner::StartSegment(const Segment& segment) {
  if (!segment.is_final() && study_.IsQueued(segment.trial)) {
    return writer_.Begin(segment.trial);
  }
  if (!IsOwn(segment)) {
    TRIBUTARY_RETURN_IF_ERROR(writer_.Claim(segment, options_.leases->id()));
  }
  const int slot = FreeSlot();
  absl::StatusOr<JobLaunch> launch = MakeLaunch(segment, slot);
  if (!launch.ok()) {
    return RecordFailure(segment, std::string(launch.status().message()));
  }
  // That the values of a trial differ from those of its parent is intended.
  const std::string expected =
      absl::StrCat("the job differs from that of ", launch->resume, ":");
  TRIBUTARY_ASSIGN_OR_RETURN(
      slots_[slot],
      TrialRun::Start(segment, *std::move(launch),
                      [this, segment, expected](const std::string& text) {
                        if (absl::StrContains(text, expected)) return;
                        display_.Message(
                            absl::StrCat(NameOf(segment), ": ", text));
                      }));
  return absl::OkStatus();
}

absl::Status Tuner::AdvanceAll(int signal) {
  for (std::unique_ptr<TrialRun>& run : slots_) {
    if (run == nullptr || run->Advance(signal)) continue;
    const std::unique_ptr<TrialRun> ended = std::move(run);
    TRIBUTARY_RETURN_IF_ERROR(Record(*ended));
  }
  return absl::OkStatus();
}

absl::Status Tuner::Record(const TrialRun& run) {
  const Segment& segment = run.segment();
  const absl::Status& ended = run.end().status;
  // It continues from its checkpoint when the search is resumed, or at once by
  // another tuner.
  if (absl::IsCancelled(ended)) {
    if (options_.leases == nullptr) return absl::OkStatus();
    return Insist([&] {
      return IsOwn(segment) ? writer_.Claim(segment, "") : absl::OkStatus();
    });
  }
  if (!ended.ok()) return RecordFailure(segment, std::string(ended.message()));
  const auto summary = ReadRunSummary(run.folder());
  const absl::StatusOr<TrialResult> result =
      summary.ok() ? ResultOfRun(study_.search(), *summary)
                   : absl::StatusOr<TrialResult>(summary.status());
  if (!result.ok()) {
    return RecordFailure(segment, std::string(result.status().message()));
  }
  return RecordResult(segment, *result, *summary);
}

absl::Status Tuner::RecordResult(const Segment& segment,
                                 const TrialResult& result,
                                 const nlohmann::ordered_json& summary) {
  steps_done_ += segment.steps - BeginOf(study_.study(), segment);
  bool awaited = false;
  TRIBUTARY_RETURN_IF_ERROR(Insist([&] {
    awaited = IsAwaited(segment);
    if (!awaited) return absl::OkStatus();
    return segment.is_final() ? writer_.ReportFinal(segment, result, summary)
                              : writer_.Report(segment.trial, result, summary);
  }));
  if (!awaited) return absl::OkStatus();
  display_.Message(absl::StrCat(NameOf(segment), ": step ", segment.steps,
                                " | ", ResultText(study_, result), " | ",
                                PointText(study_, segment.trial)));
  if (segment.is_final()) RemoveModelsOf(study_.folder().RunOf(segment));
  RemoveModels();
  return absl::OkStatus();
}

absl::Status Tuner::RecordFailure(const Segment& segment,
                                  const std::string& reason) {
  bool awaited = false;
  TRIBUTARY_RETURN_IF_ERROR(Insist([&] {
    awaited = IsAwaited(segment);
    if (!awaited) return absl::OkStatus();
    return segment.is_final() ? writer_.FailFinal(segment, reason)
                              : writer_.Fail(segment.trial, reason);
  }));
  if (!awaited) return absl::OkStatus();
  const std::string message =
      absl::StrCat(NameOf(segment), " failed: ", reason);
  display_.Message(message);
  if (first_failure_.empty()) first_failure_ = message;
  if (segment.is_final()) RemoveModelsOf(study_.folder().RunOf(segment));
  return absl::OkStatus();
}

bool Tuner::IsAwaited(const Segment& segment) const {
  if (!IsOwn(segment)) return false;
  return segment.is_final()
             ? study_.final_stage()->Awaits(segment.trial, segment.final_seed)
             : study_.study().NextRung(segment.trial) == segment.rung;
}

void Tuner::RemoveModels() {
  std::vector<int64_t> kept = study_.Best();
  const FinalStage* const final_stage = study_.final_stage();
  if (final_stage != nullptr && !final_stage->Done()) {
    // One of them will be the winner.
    kept = BestTrials(study_.study(), final_stage->best());
  }
  for (int64_t t = 0; t < study_.study().size(); ++t) {
    const StudyTrial::State state = study_.study().trials()[t].state;
    const bool ended = state == StudyTrial::State::kComplete ||
                       state == StudyTrial::State::kFailed ||
                       (state == StudyTrial::State::kPaused &&
                        !MayBeContinued(study_.study(), t));
    if (!ended || std::find(kept.begin(), kept.end(), t) != kept.end() ||
        !without_models_.insert(t).second) {
      continue;
    }
    RemoveModelsOf(study_.folder().Trial(t));
  }
}

void Tuner::RemoveModelsOf(const std::string& run) const {
  if (options_.keep_models) return;
  for (const char* const name : {"checkpoints", "final", "best"}) {
    std::error_code ignored;
    std::filesystem::remove_all(absl::StrCat(run, "/", name), ignored);
  }
}

std::vector<std::string> Tuner::Table() const {
  const Study& study = study_.study();
  int64_t ended = 0, failed = 0;
  for (const StudyTrial& trial : study.trials()) {
    ended += trial.state != StudyTrial::State::kActive ? 1 : 0;
    failed += trial.state == StudyTrial::State::kFailed ? 1 : 0;
  }
  const double elapsed = absl::ToDoubleSeconds(absl::Now() - began_);
  std::string head = absl::StrCat(study_.name(), ": ", ended);
  int64_t steps_now = steps_done_;
  std::vector<std::string> lines(1);
  for (const std::unique_ptr<TrialRun>& run : slots_) {
    if (run == nullptr) continue;
    const Segment& segment = run->segment();
    const StatusReply& status = run->newest();
    const int64_t begin = BeginOf(study, segment);
    steps_now += std::max<int64_t>(0, status.step() - begin);
    lines.push_back(absl::StrFormat(
        "  %s  step %d/%d  loss %s  %s", NameOf(segment), status.step(),
        segment.steps, status.has_loss() ? ValueText(status.loss()) : "-",
        PointText(study_, segment.trial)));
  }
  const absl::optional<int64_t> most = study.plan().most_trials;
  if (most.has_value()) absl::StrAppend(&head, " of ", *most);
  absl::StrAppend(&head, " trials ended");
  if (failed > 0) absl::StrAppend(&head, ", ", failed, " failed");
  const std::vector<int64_t> best = study_.Best();
  if (!best.empty()) {
    absl::StrAppend(
        &head, " | best: trial ", best.front(), ", ",
        ResultText(study_, study.trials()[best.front()].results.back()));
  }
  absl::StrAppend(&head, " | ", FormatSeconds(elapsed));
  if (most.has_value() && steps_now > 0) {
    int64_t left = study.plan().StepsOf(*most);
    for (const StudyTrial& trial : study.trials()) {
      if (trial.foreign || trial.results.empty()) continue;
      left -=
          study.plan().brackets[trial.bracket].rungs[trial.results.size() - 1] -
          study.plan().StepsBefore(trial.bracket, 0);
    }
    if (study_.final_stage() != nullptr) {
      left += study_.final_stage()->StepsLeft();
    }
    left -= steps_now - steps_done_;
    const double seconds = elapsed / static_cast<double>(steps_now) *
                           static_cast<double>(std::max<int64_t>(0, left));
    absl::StrAppend(&head, ", about ", FormatSeconds(seconds), " left");
  }
  lines[0] = head;
  return lines;
}

}  // namespace tributary

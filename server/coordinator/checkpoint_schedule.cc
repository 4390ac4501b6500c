#include "server/coordinator/checkpoint_schedule.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

// Servers may be one step ahead of their reports, and receive the order with a
// delay.
constexpr int64_t kLead = 2;
constexpr int64_t kMostLead = 1 << 16;

// A server that has just reported a step may still be writing its weights, and
// then refuses the version as if it had passed it. With the coordinator's ticks
// of 100 ms, updates have two seconds to end: far more than a pass over the
// memory of a machine takes. A server that still refuses after that has passed
// the version.
constexpr int kMaxIdleTries = 20;

}  // namespace

CheckpointSchedule::CheckpointSchedule(const Options& options)
    : options_(options),
      version_(options.first),
      answers_(options.servers, options.holders),
      lead_(kLead),
      committed_(options.first) {
  const bool disabled =
      options.every == 0 && options.interval == absl::InfiniteDuration();
  last_done_ = disabled || options.first >= options.last;
}

bool CheckpointSchedule::over() const {
  return stage_ == Stage::kIdle && discard_.empty() && !warning_due_ &&
         best_due_ < 0 && (last_done_ || drained_);
}

void CheckpointSchedule::TakeBest(int64_t version) {
  best_due_ = version;
  DropLaterThan(version);
}

bool CheckpointSchedule::best_copied() const {
  if (best_due_ >= 0) return false;
  return !takes_best_ || stage_ == Stage::kIdle || stage_ == Stage::kCommit ||
         stage_ == Stage::kCommitting || taken();
}

void CheckpointSchedule::EndAt(int64_t version) {
  options_.last = version;
  DropLaterThan(version);
  if (committed_ >= version) last_done_ = true;
}

void CheckpointSchedule::DropLaterThan(int64_t version) {
  const bool can_be_dropped =
      stage_ == Stage::kOrder || stage_ == Stage::kTaking;
  if (can_be_dropped && version_ > version) Drop();
}

void CheckpointSchedule::Drop() {
  discard_ = std::exchange(folder_, "");
  stage_ = Stage::kIdle;
  version_ = committed_;
}

void CheckpointSchedule::TakeSoon() {
  if (last_done_) return;
  soon_ = true;
  by_time_ = false;
  if (stage_ == Stage::kTaking && !answers_.taken_by_holder() &&
      !chosen_soon_) {
    Drop();
  }
}

void CheckpointSchedule::Drain() {
  draining_ = true;
  TakeSoon();
}

void CheckpointSchedule::OnIdle(int64_t completed, int64_t earliest) {
  if (!soon_ || by_time_ || stage_ == Stage::kFolder ||
      stage_ == Stage::kCommitting || best_due_ >= 0 || takes_best_) {
    return;
  }
  if (stage_ == Stage::kCommit) {
    commits_unevaluated_ = true;
    return;
  }
  // All servers have reached this version, so their answers will come.
  if (stage_ == Stage::kTaking && version_ <= completed) return;
  const bool torn = stage_ == Stage::kTaking && answers_.taken_by_holder();
  if (stage_ != Stage::kIdle) discard_ = std::exchange(folder_, "");
  stage_ = Stage::kIdle;
  if (completed <= committed_) {
    EndSoon();
  } else if (torn || earliest > completed || idle_tries_ == kMaxIdleTries) {
    version_ = completed;
    Fail(
        "the last worker left in the middle of the next step, which is "
        "applied to a part of the weights");
  } else {
    idle_version_ = completed;
    idle_due_ = true;
    ++idle_tries_;
  }
}

void CheckpointSchedule::EndSoon() {
  soon_ = false;
  by_time_ = false;
  time_due_.reset();
  idle_tries_ = 0;
  commits_unevaluated_ = false;
  drained_ = draining_;
}

int64_t CheckpointSchedule::Soonest(int64_t completed, int64_t earliest) const {
  return std::max(earliest, completed + lead_);
}

void CheckpointSchedule::TakeIfTimeIsUp(int64_t completed, int64_t earliest,
                                        absl::Time now) {
  if (!taken_at_.has_value() && stage_ == Stage::kTaking && taken()) {
    taken_at_ = now;
  }
  if (!time_due_.has_value()) {
    const absl::Duration writing =
        taken_at_.has_value() ? now - *taken_at_ : absl::ZeroDuration();
    time_due_ = now + std::max(options_.interval, kRest * writing);
    taken_at_.reset();
  }
  if (now < *time_due_ || soon_ || last_done_ || takes_best_) return;
  const bool waits = stage_ == Stage::kTaking && !answers_.taken_by_holder() &&
                     version_ > Soonest(completed, earliest);
  if (stage_ != Stage::kIdle && !waits) return;
  TakeSoon();
  by_time_ = true;
}

std::optional<int64_t> CheckpointSchedule::Due(int64_t completed,
                                               int64_t earliest) const {
  if (last_done_ || drained_) return std::nullopt;
  if (soon_ && completed == idle_version_) {
    return idle_due_ ? std::make_optional(completed) : std::nullopt;
  }
  // After the last step no server can pass the version.
  if (completed >= options_.last) return options_.last;
  const int64_t soonest = std::max(Soonest(completed, earliest), version_ + 1);
  if (soonest >= options_.last) return options_.last;
  if (soon_) return soonest;
  if (options_.every == 0) return options_.last;
  const int64_t multiple =
      (soonest + options_.every - 1) / options_.every * options_.every;
  return std::min(multiple, options_.last);
}

std::optional<CheckpointSchedule::Action> CheckpointSchedule::Next(
    int64_t completed, int64_t earliest, bool computed, absl::Time now) {
  TakeIfTimeIsUp(completed, earliest, now);
  if (!discard_.empty()) return Discard{std::exchange(discard_, "")};
  if (std::exchange(warning_due_, false)) return Warn{version_, failure_};
  switch (stage_) {
    case Stage::kIdle: {
      takes_best_ = best_due_ >= 0;
      if (takes_best_) {
        chosen_soon_ = true;  // No request replaces it.
        return Begin(std::exchange(best_due_, -1));
      }
      const std::optional<int64_t> due = Due(completed, earliest);
      if (!due.has_value()) return std::nullopt;
      idle_due_ = false;
      chosen_soon_ = soon_;
      return Begin(*due);
    }
    case Stage::kOrder:
      stage_ = Stage::kTaking;
      return OrderSnapshots{version_, folder_};
    case Stage::kCommit:
      if (version_ == options_.last && !computed && !takes_best_ &&
          !commits_unevaluated_) {
        return std::nullopt;
      }
      stage_ = Stage::kCommitting;
      return Commit{version_, folder_, answers_.Files(), takes_best_};
    case Stage::kFolder:
    case Stage::kTaking:
    case Stage::kCommitting:
      break;
  }
  return std::nullopt;
}

CheckpointSchedule::MakeFolder CheckpointSchedule::Begin(int64_t version) {
  stage_ = Stage::kFolder;
  version_ = version;
  answers_ = ShardAnswers(options_.servers, options_.holders);
  taken_at_.reset();
  return MakeFolder{version};
}

void CheckpointSchedule::OnFolder(const absl::StatusOr<std::string>& folder) {
  if (stage_ != Stage::kFolder) return;
  if (folder.ok()) {
    folder_ = *folder;
    stage_ = Stage::kOrder;
    if (soon_ && !chosen_soon_) Drop();
    if (best_due_ >= 0) DropLaterThan(best_due_);
    DropLaterThan(options_.last);
  } else {
    Fail(std::string(folder.status().message()));
  }
}

void CheckpointSchedule::OnReport(int shard, const SnapshotReport& report) {
  if (stage_ != Stage::kTaking || report.version() != version_ ||
      !answers_.Add(shard, report)) {
    return;
  }
  if (!answers_.error().empty()) {
    Fail(answers_.error());
  } else if (answers_.passed() && takes_best_) {
    Fail("a server has a later version already");
  } else if (answers_.passed()) {
    discard_ = std::exchange(folder_, "");
    stage_ = Stage::kIdle;
    lead_ = std::min(2 * lead_, kMostLead);
  } else {
    stage_ = Stage::kCommit;
  }
}

void CheckpointSchedule::OnCommitted(const absl::Status& status) {
  if (stage_ != Stage::kCommitting) return;
  if (!status.ok()) {
    Fail(std::string(status.message()));
    return;
  }
  stage_ = Stage::kIdle;
  folder_.clear();
  if (std::exchange(takes_best_, false)) {
    version_ = committed_;
    warned_ = false;
    return;
  }
  committed_ = version_;
  lead_ = kLead;
  warned_ = false;
  EndSoon();
  last_done_ = version_ == options_.last;
}

void CheckpointSchedule::Fail(const std::string& message) {
  ++failures_;
  failure_ = message;
  warning_due_ = !std::exchange(warned_, true);
  discard_ = std::exchange(folder_, "");
  stage_ = Stage::kIdle;
  if (std::exchange(takes_best_, false)) return;
  EndSoon();
  last_done_ = version_ == options_.last;
}

}  // namespace tributary

#include "worker/state/work_state.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>

#include "common/base/monotonic_clock.h"
#include "common/job/exchange_traits.h"
#include "worker/state/asynchronous_work.h"
#include "worker/state/stale_synchronous_work.h"
#include "worker/state/synchronous_work.h"

namespace tributary {
namespace {

// Returns the items of [begin, end) that are not done.
std::vector<int64_t> Missing(int64_t begin, int64_t end, int64_t version,
                             const std::map<int64_t, std::set<int64_t>>& done) {
  const auto found = done.find(version);
  std::vector<int64_t> items;
  for (int64_t item = begin; item < end; ++item) {
    if (found == done.end() || found->second.count(item) == 0) {
      items.push_back(item);
    }
  }
  return items;
}

}  // namespace

std::unique_ptr<WorkState> WorkState::Create(const JobSpec& job,
                                             const Options& options,
                                             const ArenaLayout* layout) {
  const ExchangeTraits traits = ResolveExchange(job);
  if (traits.whole_batches) {
    return std::make_unique<AsynchronousWork>(
        options, static_cast<int>(job.batch().micro_batches()), layout);
  }
  if (!traits.one_version_per_round) {
    return std::make_unique<StaleSynchronousWork>(
        options, ConsistencyOf(job).stale_synchronous(), layout);
  }
  return std::make_unique<SynchronousWork>(options, layout);
}

WorkState::WorkState(const Options& options, const ArenaLayout* layout)
    : options_(options),
      layout_(layout),
      last_version_(options.steps),
      tables_complete_(options.table_servers, -1) {}

void WorkState::RequestInitialize() {
  absl::MutexLock lock(&mu_);
  initialize_ = true;
}

void WorkState::SetAssignment(const Deal& assignment) {
  absl::MutexLock lock(&mu_);
  if (assignment.generation() <= assignment_.generation()) return;
  assignment_ = assignment;
  evaluated_ = std::max(evaluated_, assignment.evaluated_version());
  if (assignment.has_rate_factor()) {
    KeepRateFactor(assignment.evaluated_version(), assignment.rate_factor());
  }
  if (!staged()) return;
  const int64_t first = assignment.first_step();
  done_micro_batches_.erase(done_micro_batches_.lower_bound(first),
                            done_micro_batches_.end());
  done_pieces_.erase(done_pieces_.lower_bound(first), done_pieces_.end());
}

void WorkState::SetStepComplete(int64_t step) {
  absl::MutexLock lock(&mu_);
  assignment_.set_first_step(std::max(assignment_.first_step(), step + 1));
}

void WorkState::SetEvaluated(int64_t version,
                             std::optional<double> rate_factor) {
  absl::MutexLock lock(&mu_);
  evaluated_ = std::max(evaluated_, version);
  if (rate_factor.has_value()) KeepRateFactor(version, *rate_factor);
}

void WorkState::KeepRateFactor(int64_t version, double factor) {
  // A task of a step before `version` may still be computed.
  constexpr size_t kMost = 4;
  rate_factors_[version] = factor;
  if (rate_factors_.size() > kMost) rate_factors_.erase(rate_factors_.begin());
}

double WorkState::RateFactorOf(int64_t step) const {
  const auto next = rate_factors_.upper_bound(step);
  return next == rate_factors_.begin() ? 1 : std::prev(next)->second;
}

void WorkState::SetLastVersion(int64_t version) {
  absl::MutexLock lock(&mu_);
  last_version_ = version;
}

void WorkState::SetTablesComplete(int shard, int64_t version) {
  absl::MutexLock lock(&mu_);
  tables_complete_[shard] = version;
}

int64_t WorkState::TablesVersion() const {
  int64_t version = std::numeric_limits<int64_t>::max();
  for (const int64_t of_server : tables_complete_) {
    version = std::min(version, of_server);
  }
  return version;
}

void WorkState::SetFinished() {
  std::function<void()> over;
  {
    absl::MutexLock lock(&mu_);
    finished_ = true;
    over = over_;
  }
  if (over) over();
}

void WorkState::Fail(const absl::Status& status) {
  std::function<void()> over;
  {
    absl::MutexLock lock(&mu_);
    if (status_.ok()) status_ = status;
    over = over_;
  }
  if (over) over();
}

void WorkState::SetOver(std::function<void()> over) {
  absl::MutexLock lock(&mu_);
  over_ = std::move(over);
}

absl::Status WorkState::status() const {
  absl::MutexLock lock(&mu_);
  return status_;
}

void WorkState::SetUnparked(std::function<void()> unparked) {
  absl::MutexLock lock(&mu_);
  unparked_ = std::move(unparked);
}

void WorkState::Unpark() {
  std::function<void()> unparked;
  {
    absl::MutexLock lock(&mu_);
    unparked = unparked_;
  }
  if (unparked) unparked();
}

int64_t WorkState::LastEvaluationDue(int64_t version) const {
  if (!options_.evaluates) return 0;
  if (version == options_.steps) return version;
  const int64_t every = options_.evaluate_every;
  return every > 0 ? version - version % every : 0;
}

Task WorkState::Next() {
  EndTask();
  Task task;
  const auto decided = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return Decide(&task);
  };
  absl::MutexLock lock(&mu_);
  Await(&mu_, absl::Condition(&decided));
  BeginTask(task);
  return task;
}

std::optional<Task> WorkState::TryNextForTest() {
  EndTask();
  absl::MutexLock lock(&mu_);
  Task task;
  if (!Decide(&task)) return std::nullopt;
  BeginTask(task);
  return task;
}

void WorkState::EndTask() {
  bool unpark = false;
  {
    absl::MutexLock lock(&mu_);
    unpark = OnTaskEnd();
  }
  if (unpark) Unpark();
}

void WorkState::BeginTask(const Task& task) {
  if (task.kind == Task::Kind::kInitialize) initialize_ = false;
  if (task.kind == Task::Kind::kReportSynced) {
    synced_version_ = task.version;
  }
  OnTaskBegin(task);
  // Older versions cannot be reassigned.
  const int64_t oldest = std::min(task.version, CompleteVersion()) - 1;
  done_micro_batches_.erase(done_micro_batches_.begin(),
                            done_micro_batches_.lower_bound(oldest));
  done_pieces_.erase(done_pieces_.begin(), done_pieces_.lower_bound(oldest));
}

bool WorkState::Decide(Task* task) const {
  *task = Task();
  task->generation = assignment_.generation();
  if (!status_.ok()) {
    task->kind = Task::Kind::kFail;
    return true;
  }
  // Receiving the last version of every chunk proves that all servers have it.
  // The coordinator may read it only then.
  if (finished_) {
    task->kind = Task::Kind::kFinish;
    task->version = last_version_;
    return CompleteVersion() == last_version_;
  }
  if (awaits_end_) return false;
  if (initialize_) {
    task->kind = Task::Kind::kInitialize;
    return true;
  }
  const int64_t version = CompleteVersion();
  if (version < 0) return false;
  task->version = version;
  if (synced_version_ < 0) {
    task->kind = Task::Kind::kReportSynced;
    return true;
  }
  if (assignment_.generation() == 0) return false;
  // The workers of other stages use newer weights, which are on their way.
  if (staged() && version + 1 < assignment_.first_step()) return false;
  // So are the weights that were evaluated. A worker that joined later need not
  // know the learning rate of the steps before them, which are complete.
  if (!staged() && version < evaluated_) return false;
  // Chunks of other stages may still lack the step before.
  if (staged() && assignment_.first_step() < version && Holds(version - 1)) {
    Task repeated = *task;
    if (AssignedMicroBatches(version - 1, &repeated)) {
      *task = std::move(repeated);
      return true;
    }
  }
  if (EvaluationDue(version)) {
    // The workers of all stages must decide alike, although some of them learn
    // later than others that the evaluation is complete: those that evaluate a
    // piece wait for the others.
    const int64_t evaluated =
        staged() ? assignment_.evaluated_version() : evaluated_;
    task->kind = Task::Kind::kEvaluate;
    task->items = Missing(assignment_.piece_begin(), assignment_.piece_end(),
                          version, done_pieces_);
    if (evaluated < version && !task->items.empty()) return true;
    if (evaluated_ < version) return false;
  }
  // The notice of an evaluation may come after the weights behind it, and may
  // change their learning rate. An assignment names those before Synced.
  const int64_t due = LastEvaluationDue(version);
  if (due >= synced_version_ && evaluated_ < due) return false;
  return DecideTraining(version, task);
}

bool WorkState::AssignedMicroBatches(int64_t step, Task* task) const {
  if (step >= options_.steps) return false;
  // Complete steps are not computed again. Its transfers would be refused at
  // once, again and again until the next weights have arrived.
  if (staged() && step < assignment_.first_step()) return false;
  task->kind = Task::Kind::kTrain;
  task->version = step;
  task->rate_factor = RateFactorOf(step);
  task->next_step = step + 1 < options_.steps ? step + 1 : -1;
  task->items = Missing(assignment_.leaf_begin(), assignment_.leaf_end(), step,
                        done_micro_batches_);
  return !task->items.empty();
}

bool WorkState::LeftByPeers(const Task& task) const {
  if (!staged()) return false;
  return task.generation != assignment_.generation() ||
         (task.kind == Task::Kind::kTrain &&
          task.version < assignment_.first_step());
}

void WorkState::MarkDone(const Task& task) {
  absl::MutexLock lock(&mu_);
  if (staged() && task.generation != assignment_.generation()) return;
  auto& done =
      task.kind == Task::Kind::kTrain ? done_micro_batches_ : done_pieces_;
  done[task.version].insert(task.items.begin(), task.items.end());
}

void WorkState::AwaitEnd() {
  absl::MutexLock lock(&mu_);
  awaits_end_ = true;
}

bool WorkState::GivenUp(const Task& task) const {
  absl::MutexLock lock(&mu_);
  return MustGiveUp(task);
}

}  // namespace tributary

#include "worker/training/threads/work_times.h"

#include <algorithm>
#include <array>

namespace tributary {

WorkTimes::WorkTimes(const Rounds* rounds,
                     const ComputeThreadTimer::Clock& clock, int threads)
    : rounds_(*rounds) {
  for (int thread = 0; thread < threads; ++thread) {
    timers_.push_back(std::make_unique<ComputeThreadTimer>(clock));
  }
}

void WorkTimes::CountMicroBatch(absl::Duration taken, double cpu_seconds) {
  absl::MutexLock lock(&mu_);
  ++micro_batches_;
  micro_batch_time_ += taken;
  micro_batch_cpu_seconds_ += cpu_seconds;
}

void WorkTimes::BeginTask(const Task& task, absl::Duration waited) {
  absl::MutexLock lock(&mu_);
  // Waits before the first task (for other workers to join) are not counted.
  // Waits after an evaluation are for other workers' evaluations.
  if (round_ >= 0) spent_[waits_for_] += waited;
  waits_for_ = task.kind == Task::Kind::kEvaluate ? Activity::kEvaluate
                                                  : Activity::kExchange;
  round_ = task.version;
  // A round may take several tasks when micro-batches are reassigned.
  if (task.kind == Task::Kind::kTrain && task.version > newest_round_) {
    newest_round_ = task.version;
    steps_ +=
        rounds_.StepsAfter(task.version + 1) - rounds_.StepsAfter(task.version);
  }
}

void WorkTimes::EndTask(absl::Duration taken) {
  TimeSpent spent;
  for (const auto& timer : timers_) spent.Add(timer->Take());
  // Idle threads wait for busy ones, so the process's activity is theirs.
  spent[Activity::kIdle] = absl::ZeroDuration();
  const absl::Duration total = spent.Total();
  if (total <= absl::ZeroDuration()) return;
  spent.Scale(absl::FDivDuration(taken, total));
  absl::MutexLock lock(&mu_);
  spent_.Add(spent);
}

Activity WorkTimes::MainActivity() const {
  std::array<int, kActivities> threads = {};
  for (const auto& timer : timers_) {
    ++threads[static_cast<int>(timer->activity())];
  }
  threads[static_cast<int>(Activity::kIdle)] = 0;
  const auto most = std::max_element(threads.begin(), threads.end());
  if (*most > 0) return static_cast<Activity>(most - threads.begin());
  // No thread is busy: the process is between two tasks.
  return round_ < 0 ? Activity::kIdle : Activity::kExchange;
}

Heartbeat WorkTimes::Progress() const {
  absl::MutexLock lock(&mu_);
  Heartbeat heartbeat;
  heartbeat.set_step(rounds_.StepsAfter(std::max<int64_t>(0, round_)));
  heartbeat.set_phase(ActivityName(MainActivity()));
  const auto seconds = [this](Activity activity)
                           ABSL_SHARED_LOCKS_REQUIRED(mu_) {
                             return absl::ToDoubleSeconds(spent_[activity]);
                           };
  ProcessStatistics* statistics = heartbeat.mutable_statistics();
  statistics->set_forward_seconds(seconds(Activity::kForward));
  statistics->set_backward_seconds(seconds(Activity::kBackward));
  statistics->set_compute_seconds(statistics->forward_seconds() +
                                  statistics->backward_seconds());
  statistics->set_exchange_seconds(seconds(Activity::kExchange));
  statistics->set_data_seconds(seconds(Activity::kData));
  statistics->set_evaluation_seconds(seconds(Activity::kEvaluate));
  statistics->set_leaves(micro_batches_);
  statistics->set_leaf_seconds(absl::ToDoubleSeconds(micro_batch_time_));
  statistics->set_leaf_cpu_seconds(micro_batch_cpu_seconds_);
  statistics->set_steps(steps_);
  return heartbeat;
}

}  // namespace tributary

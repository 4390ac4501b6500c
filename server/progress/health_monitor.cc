#include "server/progress/health_monitor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"

namespace tributary {
namespace {

// Weight of a new line in the averages: about the last 20 lines count.
constexpr double kWeight = 0.1;
// The averages are used only after this many lines.
constexpr int64_t kSettled = 20;
// A condition must hold for this many lines in a row.
constexpr int kSustained = 20;
// The loss diverges if more than this fraction of its improvement is lost, and
// the average is further above its minimum than this multiple of the noise.
constexpr double kLostImprovement = 0.5;
constexpr double kNoises = 4;
// An improvement of the training loss is at least this fraction of it.
constexpr double kImprovement = 1e-3;
// A plateau is an interval without an improvement that has at least this
// fraction of the job's steps, and this many lines or evaluations.
constexpr double kPlateauShare = 0.2;
constexpr int64_t kPlateauLines = 200;
constexpr int64_t kPlateauEvaluations = 5;
// Multiples of the median of the other workers' times at which a worker counts
// as slow, and no longer.
constexpr double kSlow = 2;
constexpr double kNoLongerSlow = 1.5;

double UpperMedian(std::vector<double> values) {
  const auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::vector<HealthMonitor::Alarm> HealthMonitor::Add(const Line& line) {
  std::vector<Alarm> alarms;
  AddNonfinite(line, &alarms);
  if (line.loss.has_value() && std::isfinite(*line.loss)) {
    AddLoss(line.step, *line.loss, &alarms);
  }
  if (line.evaluation_loss.has_value() &&
      std::isfinite(*line.evaluation_loss)) {
    AddEvaluation(line.step, *line.evaluation_loss, &alarms);
  }
  AddWorkers(line.workers, &alarms);
  return alarms;
}

void HealthMonitor::AddNonfinite(const Line& line, std::vector<Alarm>* alarms) {
  if (line.skipped) {
    lines_since_skip_ = 0;
    if (!std::exchange(skips_, true)) {
      alarms->push_back(
          {"skipped_step",
           absl::StrFormat("step %d was skipped, because its gradient is not "
                           "finite; metrics.jsonl names the parameter",
                           line.step)});
    }
    return;
  }
  const std::optional<double>& loss =
      line.loss.has_value() ? line.loss : line.evaluation_loss;
  if (!loss.has_value()) return;
  if (std::isfinite(*loss)) {
    nonfinite_ = false;
    if (line.loss.has_value() && ++lines_since_skip_ >= kSustained) {
      skips_ = false;
    }
  } else if (!std::exchange(nonfinite_, true)) {
    alarms->push_back(
        {"nonfinite_loss",
         absl::StrFormat("the %s loss at step %d is not finite; a smaller "
                         "learning rate or clip_norm may help",
                         line.loss.has_value() ? "training" : "evaluation",
                         line.step)});
  }
}

void HealthMonitor::AddLoss(int64_t step, double loss,
                            std::vector<Alarm>* alarms) {
  if (losses_ == 0) loss_ = loss;
  noise_ += kWeight * (std::abs(loss - loss_) - noise_);
  loss_ += kWeight * (loss - loss_);
  if (++losses_ <= kSettled) {
    first_loss_ = least_loss_ = loss_;
    least_loss_step_ = step;
    return;
  }
  ++lines_since_least_;
  if (loss_ < least_loss_ - kImprovement * std::abs(least_loss_)) {
    least_loss_ = loss_;
    least_loss_step_ = step;
    lines_since_least_ = 0;
    if (!least_evaluation_.has_value()) plateau_ = false;
  }

  const double lost = loss_ - least_loss_;
  const double improvement = first_loss_ - least_loss_;
  const bool high =
      lost > kLostImprovement * improvement && lost > kNoises * noise_;
  high_lines_ = high ? high_lines_ + 1 : 0;
  if (lost < 0.5 * kLostImprovement * improvement) diverges_ = false;
  if (high_lines_ >= kSustained && !diverges_) {
    diverges_ = true;
    alarms->push_back(
        {"divergence",
         absl::StrFormat("the training loss diverges: it is %.4g, and was "
                         "%.4g at step %d; a smaller learning rate or "
                         "clip_norm may help",
                         loss_, least_loss_, least_loss_step_)});
  }

  // If the job evaluates, AddEvaluation detects a plateau.
  if (least_evaluation_.has_value() || plateau_ || diverges_) return;
  if (lines_since_least_ >= kPlateauLines &&
      static_cast<double>(step - least_loss_step_) >=
          kPlateauShare * static_cast<double>(steps_)) {
    plateau_ = true;
    alarms->push_back(
        {"plateau", absl::StrFormat("the training loss has not improved since "
                                    "step %d, when it was %.4g",
                                    least_loss_step_, least_loss_)});
  }
}

void HealthMonitor::AddEvaluation(int64_t step, double loss,
                                  std::vector<Alarm>* alarms) {
  if (!least_evaluation_.has_value() || loss < *least_evaluation_) {
    least_evaluation_ = loss;
    least_evaluation_step_ = step;
    evaluations_since_least_ = 0;
    plateau_ = false;
    return;
  }
  ++evaluations_since_least_;
  if (!plateau_ && evaluations_since_least_ >= kPlateauEvaluations &&
      static_cast<double>(step - least_evaluation_step_) >=
          kPlateauShare * static_cast<double>(steps_)) {
    plateau_ = true;
    alarms->push_back(
        {"plateau",
         absl::StrFormat("the evaluation loss has not improved in %d "
                         "evaluations: it is %.4g, and was %.4g at step %d",
                         evaluations_since_least_, loss, *least_evaluation_,
                         least_evaluation_step_)});
  }
}

void HealthMonitor::AddWorkers(const std::vector<Worker>& workers,
                               std::vector<Alarm>* alarms) {
  if (workers.empty()) return;  // A line about something else.
  for (auto it = slow_.begin(); it != slow_.end();) {
    const int rank = it->first;
    const bool compared =
        workers.size() > 1 &&
        std::any_of(workers.begin(), workers.end(),
                    [rank](const Worker& w) { return w.rank == rank; });
    it->second.absent_lines = compared ? 0 : it->second.absent_lines + 1;
    it = it->second.absent_lines >= kSustained ? slow_.erase(it) : ++it;
  }
  for (const Worker& worker : workers) {
    std::vector<double> others;
    for (const Worker& other : workers) {
      if (other.rank != worker.rank) others.push_back(other.micro_batch_ms);
    }
    if (others.empty()) return;
    const double median = UpperMedian(std::move(others));
    Slow& slow = slow_[worker.rank];
    slow.lines = worker.micro_batch_ms >= kSlow * median ? slow.lines + 1 : 0;
    if (worker.micro_batch_ms < kNoLongerSlow * median) slow.raised = false;
    if (slow.lines >= kSustained && !slow.raised) {
      slow.raised = true;
      alarms->push_back(
          {"slow_worker",
           absl::StrFormat("worker %d is slow: a micro-batch takes it %.4g ms, "
                           "the other workers %.4g ms (median)",
                           worker.rank, worker.micro_batch_ms, median)});
    }
  }
}

std::map<std::string, int> HealthMonitor::active() const {
  const bool slow =
      std::any_of(slow_.begin(), slow_.end(),
                  [](const auto& entry) { return entry.second.raised; });
  return {{"divergence", diverges_ ? 1 : 0},
          {"nonfinite_loss", nonfinite_ ? 1 : 0},
          {"plateau", plateau_ ? 1 : 0},
          {"skipped_step", skips_ ? 1 : 0},
          {"slow_worker", slow ? 1 : 0}};
}

}  // namespace tributary

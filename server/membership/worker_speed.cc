#include "server/membership/worker_speed.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace tributary {
namespace {

// Number of samples in a measurement: a few seconds at two heartbeats per
// second. More samples would respond slowly to changes; fewer would respond to
// noise.
constexpr size_t kSamples = 5;
// If a micro-batch takes longer than this time, in seconds, one micro-batch is
// a sufficient measurement.
constexpr double kFreshSeconds = 3;

void AddSample(double sample, std::deque<double>* samples) {
  samples->push_back(sample);
  if (samples->size() > kSamples) samples->pop_front();
}

double Median(const std::deque<double>& samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

}  // namespace

void WorkerSpeed::Add(const ProcessStatistics& statistics,
                      double waiting_seconds) {
  threads_ = std::max(1, statistics.threads());
  const int64_t micro_batches = statistics.leaves() - newest_.leaves();
  const double micro_batch_seconds =
      statistics.leaf_seconds() - newest_.leaf_seconds();
  if (micro_batches <= 0 || !(micro_batch_seconds > 0) ||
      !std::isfinite(micro_batch_seconds)) {
    return;
  }
  AddSample(micro_batch_seconds / static_cast<double>(micro_batches),
            &micro_batch_seconds_);
  measured_seconds_ += micro_batch_seconds;
  const int64_t steps = statistics.steps() - newest_.steps();
  const double exchange = statistics.exchange_seconds() -
                          newest_.exchange_seconds() -
                          (waiting_seconds - waiting_seconds_);
  if (steps > 0 && std::isfinite(exchange)) {
    AddSample(exchange / static_cast<double>(steps), &exchange_samples_);
  }
  newest_ = statistics;
  waiting_seconds_ = waiting_seconds;
}

void WorkerSpeed::Restart(bool has_micro_batches, absl::Time now) {
  micro_batch_seconds_before_ = MeasuredMicroBatch();
  micro_batch_seconds_.clear();
  exchange_samples_.clear();
  measured_seconds_ = 0;
  idle_since_ =
      has_micro_batches ? absl::InfiniteFuture() : std::min(idle_since_, now);
}

bool WorkerSpeed::fresh() const {
  return micro_batch_seconds_.size() >= kSamples ||
         measured_seconds_ > kFreshSeconds;
}

std::optional<double> WorkerSpeed::micro_batch_seconds(absl::Time now) const {
  const std::optional<double> micro_batch = MeasuredMicroBatch();
  if (!micro_batch.has_value() || now <= idle_since_) return micro_batch;
  return HalvedByAge(*micro_batch, now - idle_since_);
}

double WorkerSpeed::exchange_seconds() const {
  // Steps and waits are not counted at the same moment, so a difference may be
  // negative.
  return exchange_samples_.empty() ? 0
                                   : std::max(0.0, Median(exchange_samples_));
}

std::optional<double> WorkerSpeed::MeasuredMicroBatch() const {
  if (micro_batch_seconds_before_.has_value() && !fresh()) {
    return micro_batch_seconds_before_;
  }
  if (micro_batch_seconds_.empty()) return std::nullopt;
  return Median(micro_batch_seconds_);
}

double HalvedByAge(double value, absl::Duration age) {
  const int64_t halvings = age / WorkerSpeed::kHalfLife;
  return value * std::exp2(-static_cast<double>(halvings));
}

}  // namespace tributary

#include "server/leaf_speed.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace tributary {
namespace {

// A median of five forgets two hiccups, and is a few seconds old.
constexpr size_t kSamples = 5;
// Three samples are enough, or a few seconds of computing: where a leaf takes
// longer than that, one says enough.
constexpr size_t kFreshSamples = 3;
constexpr double kFreshSeconds = 3;

}  // namespace

void LeafSpeed::Add(const ProcessStatistics& statistics) {
  threads_ = std::max(1, statistics.threads());
  const int64_t leaves = statistics.leaves() - leaves_;
  const double seconds = statistics.leaf_seconds() - leaf_seconds_;
  if (leaves <= 0 || !(seconds > 0) || !std::isfinite(seconds)) return;
  leaves_ = statistics.leaves();
  leaf_seconds_ = statistics.leaf_seconds();
  samples_.push_back(seconds / static_cast<double>(leaves));
  if (samples_.size() > kSamples) samples_.pop_front();
  measured_seconds_ += seconds;
}

void LeafSpeed::Restart(bool has_leaves, absl::Time now) {
  before_ = Measured();
  samples_.clear();
  measured_seconds_ = 0;
  idle_since_ =
      has_leaves ? absl::InfiniteFuture() : std::min(idle_since_, now);
}

bool LeafSpeed::fresh() const {
  return samples_.size() >= kFreshSamples || measured_seconds_ > kFreshSeconds;
}

std::optional<double> LeafSpeed::seconds(absl::Time now) const {
  std::optional<double> leaf = Measured();
  if (leaf.has_value() && now > idle_since_) {
    const int64_t halvings = (now - idle_since_) / kForget;
    *leaf *= std::exp2(-static_cast<double>(halvings));
  }
  return leaf;
}

std::optional<double> LeafSpeed::Measured() const {
  if (before_.has_value() && !fresh()) return before_;
  if (samples_.empty()) return std::nullopt;
  std::vector<double> sorted(samples_.begin(), samples_.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

}  // namespace tributary

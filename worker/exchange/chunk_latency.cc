#include "worker/exchange/chunk_latency.h"

namespace tributary {
namespace {

// Number of steps that the coordinator, too, excludes from its step times.
constexpr int64_t kWarmUpSteps = 3;
// Upper bound on pushes in flight for a chunk; older ones were lost.
constexpr size_t kMaxOpen = 64;

}  // namespace

void ChunkLatency::Pushed(int64_t step, int chunk, absl::Time now) {
  absl::MutexLock lock(&mu_);
  if (first_step_ < 0) first_step_ = step;
  auto& pushed = pushed_[chunk];
  if (!pushed.empty() && pushed.back().step == step) {
    pushed.back().time = now;
    return;
  }
  if (pushed.size() == kMaxOpen) pushed.erase(pushed.begin());
  pushed.push_back({step, now});
}

void ChunkLatency::Arrived(int chunk, absl::Time now) {
  absl::MutexLock lock(&mu_);
  auto& pushed = pushed_[chunk];
  if (pushed.empty()) return;
  const Push oldest = pushed.front();
  pushed.erase(pushed.begin());
  if (oldest.step < first_step_ + kWarmUpSteps) return;
  histogram_.Add(now - oldest.time);
}

DurationCounts ChunkLatency::counts() const {
  absl::MutexLock lock(&mu_);
  return histogram_.counts();
}

}  // namespace tributary

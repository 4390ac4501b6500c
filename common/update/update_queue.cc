#include "common/update/update_queue.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace tributary {
namespace {

// Compares bits: a norm may be NaN.
bool Same(const std::optional<double>& a, const std::optional<double>& b) {
  if (!a.has_value() || !b.has_value()) return a.has_value() == b.has_value();
  return std::memcmp(&*a, &*b, sizeof(double)) == 0;
}

}  // namespace

UpdateQueue::UpdateQueue(Executor* pool, Options options)
    : pool_(pool), options_(std::move(options)) {}

void UpdateQueue::Add(int chunk, std::optional<double> norm) {
  {
    absl::MutexLock lock(&mu_);
    queue_.emplace(chunk, norm);
    ++unfinished_;
  }
  pool_->Run([this] { RunNext(); });
}

void UpdateQueue::RunNext() {
  std::optional<double> norm;
  const std::vector<int> chunks = Take(&norm);
  if (chunks.empty()) return;
  options_.run(chunks, norm);
  {
    absl::MutexLock lock(&mu_);
    unfinished_ -= static_cast<int>(chunks.size());
    if (unfinished_ > 0) return;
  }
  options_.on_idle();
}

std::vector<int> UpdateQueue::Take(std::optional<double>* norm) {
  absl::MutexLock lock(&mu_);
  const int queued = static_cast<int>(queue_.size());
  const int share = (queued + options_.streams - 1) / options_.streams;
  const auto count = static_cast<size_t>(std::min(options_.most, share));
  std::vector<int> chunks;
  if (queued == 0) return chunks;
  *norm = queue_.begin()->second;
  while (chunks.size() < count && !queue_.empty() &&
         Same(queue_.begin()->second, *norm)) {
    chunks.push_back(queue_.begin()->first);
    queue_.erase(queue_.begin());
  }
  return chunks;
}

}  // namespace tributary

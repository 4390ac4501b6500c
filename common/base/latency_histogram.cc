#include "common/base/latency_histogram.h"

#include <algorithm>

namespace tributary {
namespace {

// 2^47 nanoseconds are about 39 hours.
constexpr int kMaxBits = 47;
constexpr int kMaxIndex = 8 * (kMaxBits - 3) + 15;

// Returns the index of a duration's bucket. DurationCounts in
// proto/rendezvous.proto defines the buckets.
int IndexOf(int64_t nanoseconds) {
  int shift = 0;
  while (nanoseconds >> shift >= 16) ++shift;
  return std::min(kMaxIndex,
                  8 * shift + static_cast<int>(nanoseconds >> shift));
}

int64_t LowerBound(int index) {
  if (index < 16) return index;
  const int shift = index / 8 - 1;
  return static_cast<int64_t>(index - 8 * shift) << shift;
}

absl::Duration MiddleOf(int index) {
  return 0.5 * (absl::Nanoseconds(LowerBound(index)) +
                absl::Nanoseconds(LowerBound(index + 1)));
}

}  // namespace

LatencyHistogram::LatencyHistogram(const DurationCounts& counts) {
  const int size = std::min(counts.count_size(), kMaxIndex + 1);
  for (int i = 0; i < size; ++i) {
    const int64_t count = std::max<int64_t>(0, counts.count(i));
    counts_.add_count(count);
    Count(MiddleOf(i), count);
  }
}

void LatencyHistogram::Add(absl::Duration duration, int64_t times) {
  const int index =
      IndexOf(std::max<int64_t>(0, absl::ToInt64Nanoseconds(duration)));
  while (counts_.count_size() <= index) counts_.add_count(0);
  counts_.set_count(index, counts_.count(index) + times);
  Count(duration, times);
}

void LatencyHistogram::Count(absl::Duration duration, int64_t times) {
  for (size_t i = 0; i < kBounds.size(); ++i) {
    if (duration <= absl::Seconds(kBounds[i])) up_to_[i] += times;
  }
  count_ += times;
  sum_ += static_cast<double>(times) * duration;
}

void LatencyHistogram::Add(const LatencyHistogram& other) {
  const int size = other.counts_.count_size();
  while (counts_.count_size() < size) counts_.add_count(0);
  for (int i = 0; i < size; ++i) {
    counts_.set_count(i, counts_.count(i) + other.counts_.count(i));
  }
  for (size_t i = 0; i < kBounds.size(); ++i) up_to_[i] += other.up_to_[i];
  count_ += other.count_;
  sum_ += other.sum_;
}

absl::Duration LatencyHistogram::Quantile(double quantile) const {
  const double rank = quantile * static_cast<double>(count_);
  double below = 0;
  for (int i = 0; i < counts_.count_size(); ++i) {
    const auto here = static_cast<double>(counts_.count(i));
    if (here > 0 && below + here >= rank) {
      const int64_t begin = LowerBound(i);
      const double share = std::max(0.0, rank - below) / here;
      return absl::Nanoseconds(begin) +
             share * absl::Nanoseconds(LowerBound(i + 1) - begin);
    }
    below += here;
  }
  return absl::ZeroDuration();
}

}  // namespace tributary

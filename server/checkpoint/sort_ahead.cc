#include "server/checkpoint/sort_ahead.h"

namespace tributary {
namespace {

constexpr size_t kMostAhead = 2;

}  // namespace

SortAhead::SortAhead(std::vector<SparseTable::Changes>* changes,
                     const std::vector<RowFloats>& floats) {
  for (size_t table = 0; table < changes->size(); ++table) {
    for (BucketRows& rows : (*changes)[table].buckets) {
      buckets_.push_back({&rows, floats[table].all()});
    }
  }
  if (!buckets_.empty()) thread_ = std::thread([this] { Sort(); });
}

SortAhead::~SortAhead() {
  {
    absl::MutexLock lock(&mu_);
    ended_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void SortAhead::Sort() {
  RowSorter sorter;
  for (size_t next = 0; next < buckets_.size(); ++next) {
    const auto has_space = [this, next]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return ended_ || next < taken_ + kMostAhead;
    };
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&has_space));
      if (ended_) return;
    }
    sorter.Sort(buckets_[next].row_floats, buckets_[next].rows);
    absl::MutexLock lock(&mu_);
    sorted_ = next + 1;
  }
}

BucketRows* SortAhead::Next() {
  absl::MutexLock lock(&mu_);
  const size_t next = taken_++;
  const auto is_sorted = [this, next]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return sorted_ > next;
  };
  mu_.Await(absl::Condition(&is_sorted));
  return buckets_[next].rows;
}

}  // namespace tributary

#include "worker/sparse/announced_rows.h"

#include "worker/sparse/row_version.h"

namespace tributary {
namespace {

// Servers answer a request when the version exists, and bound the number of
// requests that wait. Rows for later steps than the next one gain nothing.
constexpr int64_t kStepsAhead = 2;

}  // namespace

void AnnouncedRows::Attach(const JobSpec& job, const FeatureRows* features,
                           RowExchange* exchange) {
  absl::MutexLock lock(&mu_);
  features_ = features;
  job_ = job;
  micro_batches_ = job.batch().micro_batches();
  exchange_ = exchange;
  rows_.clear();
}

void AnnouncedRows::Detach() {
  absl::MutexLock lock(&mu_);
  exchange_ = nullptr;
  rows_.clear();
}

void AnnouncedRows::Begin(int64_t step) {
  absl::MutexLock lock(&mu_);
  step_ = step;
  rows_.erase(rows_.begin(), rows_.lower_bound({step, 0}));
}

void AnnouncedRows::Announce(int64_t step, int micro_batch,
                             const std::vector<AnnouncedKeys>& keys) {
  absl::MutexLock lock(&mu_);
  if (exchange_ == nullptr || step < step_ || step > step_ + kStepsAhead ||
      micro_batch < 0 || micro_batch >= micro_batches_) {
    return;
  }
  const std::vector<FeatureRows::Feature>& features = features_->features();
  std::vector<size_t> most(features_->dims().size());
  for (const AnnouncedKeys& of : keys) {
    if (of.feature < 0 || of.feature >= static_cast<int>(features.size())) {
      return;
    }
    most[features[of.feature].table] += of.keys.size();
  }
  std::vector<KeyNumbers> numbers(most.begin(), most.end());
  for (const AnnouncedKeys& of : keys) {
    for (const uint64_t key : of.keys) {
      numbers[features[of.feature].table].Of(key);
    }
  }
  rows_[{step, micro_batch}] =
      std::make_shared<const KeyedRows>(features_->dims(), std::move(numbers),
                                        RowVersionOf(job_, step), exchange_);
}

std::shared_ptr<const KeyedRows> AnnouncedRows::Find(int64_t step,
                                                     int micro_batch) const {
  absl::MutexLock lock(&mu_);
  const auto found = rows_.find({step, micro_batch});
  return found == rows_.end() ? nullptr : found->second;
}

}  // namespace tributary

#include "common/update/consistency/asynchronous_policy.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

// Largest number of contributions that may wait for one chunk. A correct worker
// waits for the outcome of at most two steps.
constexpr size_t kMaxWaiting = 4096;

// A set of step numbers. Stores the range without gaps from 0 as one number.
class SeenSteps {
 public:
  explicit SeenSteps(int64_t all_below) : all_below_(all_below) {}

  bool Has(int64_t step) const {
    return step < all_below_ || beyond_.count(step) > 0;
  }
  void Insert(int64_t step) {
    beyond_.insert(step);
    while (!beyond_.empty() && *beyond_.begin() == all_below_) {
      beyond_.erase(beyond_.begin());
      ++all_below_;
    }
  }

 private:
  int64_t all_below_;
  std::set<int64_t> beyond_;
};

class AsynchronousQueue final : public ContributionQueue {
 public:
  AsynchronousQueue(const ConsistencyPolicy::Options& options,
                    const AsynchronousSpec& spec)
      : dtype_(options.dtype),
        max_staleness_(spec.max_staleness()),
        rate_by_staleness_(spec.learning_rate_by_staleness()),
        steps_(options.steps),
        applied_(options.first_step) {}

  absl::Status Add(int64_t version, NodeSum sum) override {
    if (version < 0 || sum.step >= steps_) {
      return absl::FailedPreconditionError(absl::StrCat(
          "a contribution to step ", sum.step, " of ", steps_, " at version ",
          version, ", computed from version ", sum.base_version));
    }
    if (sum.node != 1 || sum.base_version < 0 || sum.base_version > version) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a contribution to step ", sum.step, " of node ", sum.node,
          ", computed from version ", sum.base_version, " while the newest is ",
          version, ": in asynchronous mode a worker sends whole batches"));
    }
    if (waiting_.size() >= kMaxWaiting) {
      return absl::ResourceExhaustedError(
          absl::StrCat(waiting_.size(),
                       " contributions wait for one chunk: a worker must "
                       "wait for the outcome of earlier ones"));
    }
    waiting_.push_back(std::move(sum));
    return absl::OkStatus();
  }

  void DropFrom(int64_t contributor) override {
    waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(),
                                  [contributor](const NodeSum& sum) {
                                    return sum.contributor == contributor;
                                  }),
                   waiting_.end());
  }

  std::optional<int> FirstMissing(int64_t) const override {
    return std::nullopt;
  }

  Decision Next(int64_t version) override {
    if (waiting_.empty()) return std::monostate();
    NodeSum sum = std::move(waiting_.front());
    waiting_.pop_front();
    const int64_t staleness = version - sum.base_version;
    const bool duplicate = applied_.Has(sum.step);
    ContributionOutcome outcome;
    outcome.step = sum.step;
    outcome.age = staleness;
    outcome.receiver = sum.sender;
    if (duplicate || staleness > max_staleness_) {
      outcome.refused = !duplicate;
      return outcome;
    }
    applied_.Insert(sum.step);
    ChunkUpdate update;
    update.step = sum.step;
    update.gradient_norm = sum.gradient_norm;
    ChunkAggregator whole(/*leaves=*/1, dtype_);
    whole.Add(std::move(sum));
    update.sum = whole.Take();
    if (rate_by_staleness_) {
      update.learning_rate_divisor =
          static_cast<double>(std::max<int64_t>(staleness, 1));
    }
    update.outcome = outcome;
    return update;
  }

 private:
  const WireDtype dtype_;
  const int64_t max_staleness_;
  const bool rate_by_staleness_;
  const int64_t steps_;
  std::deque<NodeSum> waiting_;
  SeenSteps applied_;
};

}  // namespace

std::unique_ptr<ContributionQueue> AsynchronousPolicy::NewQueue() const {
  return std::make_unique<AsynchronousQueue>(options_, spec_);
}

}  // namespace tributary

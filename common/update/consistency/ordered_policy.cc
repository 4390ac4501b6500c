#include "common/update/consistency/ordered_policy.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

class OrderedQueue final : public ContributionQueue {
 public:
  OrderedQueue(const OrderedPolicy& policy,
               const ConsistencyPolicy::Options& options, int64_t staleness)
      : policy_(policy),
        leaves_(options.leaves),
        dtype_(options.dtype),
        staleness_(staleness),
        steps_(options.steps),
        next_(options.first_step) {}

  absl::Status Add(int64_t version, NodeSum sum) override {
    // A duplicate: the step's tree was complete.
    if (sum.step < next_) return absl::OkStatus();
    if (sum.step > version + staleness_ || sum.step >= steps_ || version < 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "a contribution to step ", sum.step, " comes too early at version ",
          version, " of ", steps_));
    }
    open_.try_emplace(sum.step, leaves_, dtype_)
        .first->second.Add(std::move(sum));
    return absl::OkStatus();
  }

  void DropFrom(int64_t contributor) override {
    for (auto& [step, sums] : open_) sums.DropFrom(contributor);
  }

  std::optional<int> FirstMissing(int64_t version) const override {
    if (version < next_ || version >= steps_) return std::nullopt;
    const auto found = open_.find(version);
    return found == open_.end() ? 0 : found->second.FirstMissing();
  }

  Decision Next(int64_t version) override {
    const auto oldest = open_.begin();
    if (oldest == open_.end() || oldest->first != version ||
        !policy_.IsComplete({oldest->second.FirstMissing()})) {
      return std::monostate();
    }
    ChunkUpdate update;
    update.step = version;
    update.sum = oldest->second.Take();
    open_.erase(oldest);
    next_ = version + 1;
    return update;
  }

 private:
  const OrderedPolicy policy_;
  const int leaves_;
  const WireDtype dtype_;
  const int64_t staleness_;
  const int64_t steps_;
  // Steps below were returned by Next.
  int64_t next_;
  // By step. At most staleness + 1 entries.
  std::map<int64_t, ChunkAggregator> open_;
};

}  // namespace

std::unique_ptr<ContributionQueue> OrderedPolicy::NewQueue() const {
  return std::make_unique<OrderedQueue>(*this, options_, staleness_);
}

}  // namespace tributary

#include "server/store/consistency_policy.h"

#include <deque>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

// Contributions to one chunk that wait for their turn in asynchronous mode.
// Honest workers have at most two steps unanswered.
constexpr size_t kMaxWaiting = 4096;

const ConsistencySpec& ConsistencyOf(const JobSpec& job) {
  return job.exchange().parameter_server().consistency();
}

// 0 in the modes that know no staleness.
int64_t StalenessOf(const JobSpec& job) {
  const ConsistencySpec& consistency = ConsistencyOf(job);
  return consistency.has_stale_synchronous()
             ? consistency.stale_synchronous().staleness()
             : 0;
}

// Steps are applied in order, each when its tree is complete. A step's
// contributions may come while the chunk is up to `staleness` versions behind
// it: with 0 the synchronous rule, otherwise stale synchronous parallel (Ho et
// al., "More effective distributed ML via a stale synchronous parallel
// parameter server", 2013).
class OrderedPolicy final : public ConsistencyPolicy {
 public:
  OrderedPolicy(int leaves, WireDtype dtype, int64_t staleness, int64_t steps,
                int64_t first_step)
      : leaves_(leaves),
        dtype_(dtype),
        staleness_(staleness),
        steps_(steps),
        next_(first_step) {}

  absl::Status Add(int64_t version, IncomingSum sum) override {
    // Its tree was complete: covered already.
    if (sum.step < next_) return absl::OkStatus();
    if (sum.step > version + staleness_ || sum.step >= steps_ || version < 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "a contribution to step ", sum.step, " comes too early at version ",
          version, " of ", steps_));
    }
    open_.try_emplace(sum.step, leaves_, dtype_)
        .first->second.Add(sum.node, std::move(sum.sum));
    return absl::OkStatus();
  }

  Decision Next(int64_t version) override {
    const auto oldest = open_.begin();
    if (oldest == open_.end() || oldest->first != version ||
        !oldest->second.complete()) {
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
  const int leaves_;
  const WireDtype dtype_;
  const int64_t staleness_;
  const int64_t steps_;
  // Steps below have been handed out as updates.
  int64_t next_;
  // By step: at most staleness + 1 of them.
  std::map<int64_t, ChunkAggregator> open_;
};

// Numbers from 0 on that were seen; those without a gap are one number.
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

// A contribution is a whole batch, and applied when it comes, unless the chunk
// has had the step or more than `max_staleness` versions were made since the
// one it was computed from.
class AsynchronousPolicy final : public ConsistencyPolicy {
 public:
  AsynchronousPolicy(WireDtype dtype, int64_t max_staleness, int64_t steps,
                     int64_t first_step)
      : dtype_(dtype),
        max_staleness_(max_staleness),
        steps_(steps),
        applied_(first_step) {}

  absl::Status Add(int64_t version, IncomingSum sum) override {
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

  Decision Next(int64_t version) override {
    if (waiting_.empty()) return std::monostate();
    IncomingSum sum = std::move(waiting_.front());
    waiting_.pop_front();
    const int64_t staleness = version - sum.base_version;
    const bool duplicate = applied_.Has(sum.step);
    if (duplicate || staleness > max_staleness_) {
      return Rejection{sum.step, !duplicate, staleness, sum.sender};
    }
    applied_.Insert(sum.step);
    ChunkAggregator whole(/*leaves=*/1, dtype_);
    whole.Add(/*node=*/1, std::move(sum.sum));
    return ChunkUpdate{sum.step, whole.Take(), staleness, sum.gradient_norm,
                       sum.sender};
  }

 private:
  const WireDtype dtype_;
  const int64_t max_staleness_;
  const int64_t steps_;
  std::deque<IncomingSum> waiting_;
  SeenSteps applied_;
};

}  // namespace

std::unique_ptr<ConsistencyPolicy> ConsistencyPolicy::Create(
    const JobSpec& job, int64_t steps, int64_t first_step) {
  const ConsistencySpec& consistency = ConsistencyOf(job);
  const WireDtype dtype = job.exchange().wire_dtype();
  if (consistency.has_asynchronous()) {
    return std::make_unique<AsynchronousPolicy>(
        dtype, consistency.asynchronous().max_staleness(), steps, first_step);
  }
  return std::make_unique<OrderedPolicy>(
      static_cast<int>(job.batch().micro_batches()), dtype, StalenessOf(job),
      steps, first_step);
}

int UsefulVersions(const JobSpec& job) {
  return ConsistencyOf(job).has_asynchronous() || StalenessOf(job) > 0 ? 1 : 2;
}

}  // namespace tributary

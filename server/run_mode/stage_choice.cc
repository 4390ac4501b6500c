#include "server/run_mode/stage_choice.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/pipeline/stage_balance.h"
#include "server/membership/assignment.h"
#include "server/run_mode/stage_costs.h"

namespace tributary {
namespace {

// Another order of the workers must make a step so much faster.
constexpr double kOrderGain = 1.02;

// All orders of at most so many workers are tried.
constexpr size_t kMostPermuted = 5;

// A line names at most so many workers.
constexpr size_t kMostNames = 8;

// Stages are balanced for at most so many kinds of replicas.
constexpr size_t kMostKinds = 8;

// No further divisions are tried after this time, because the coordinator does
// nothing else meanwhile. One takes milliseconds, but seconds with the largest
// numbers of stages and segments.
constexpr absl::Duration kMostTime = absl::Seconds(1);

// The devices of the stages of a replica, in their order.
using Devices = std::vector<PipelineDevice>;

bool SameDevices(const Devices& a, const Devices& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const PipelineDevice& x, const PipelineDevice& y) {
                      return x.speed == y.speed &&
                             x.memory_bytes == y.memory_bytes;
                    });
}

// The least of the devices of each stage.
Devices SlowestOf(const std::vector<Devices>& kinds) {
  Devices slowest = kinds[0];
  for (const Devices& devices : kinds) {
    for (size_t s = 0; s < devices.size(); ++s) {
      slowest[s].speed = std::min(slowest[s].speed, devices[s].speed);
      slowest[s].memory_bytes =
          std::min(slowest[s].memory_bytes, devices[s].memory_bytes);
    }
  }
  return slowest;
}

double Bottleneck(const StageBalance& balance) {
  double bottleneck = 0;
  for (const BalancedStage& stage : balance.stages) {
    bottleneck = std::max(bottleneck, stage.seconds.total());
  }
  return bottleneck;
}

class StageChooser {
 public:
  StageChooser(const PipelineSpec& spec, const StageAssignment& assignment,
               const StageMap& segments, const Ready& job,
               const std::vector<StageWorker>& workers)
      : segments_(segments),
        job_(job),
        assignment_(assignment),
        workers_(workers),
        given_(spec.stages() == 1 || !spec.split().empty()) {
    std::vector<const Ready*> reports;
    for (const StageWorker& worker : workers) reports.push_back(worker.report);
    costs_ = ReadStageCosts(spec, job, reports);
  }

  absl::StatusOr<StageChoice> Choose() {
    absl::StatusOr<Plan> best = BestPlan(/*shares_memory=*/true);
    if (absl::IsResourceExhausted(best.status())) {
      best = BestPlan(/*shares_memory=*/false);
    }
    if (absl::IsResourceExhausted(best.status())) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "parallel.pipeline: ", best.status().message(),
          "; use more workers and stages, more micro-batches, or machines with "
          "more memory, or name the layers in parallel.pipeline.split"));
    }
    TRIBUTARY_RETURN_IF_ERROR(best.status());
    std::vector<int> begins = {0};
    for (const int cut : best->cuts) begins.push_back(cut + 1);
    StageChoice choice = {segments_.Merge(begins), best->order, {}};
    for (int s = 0; s < assignment_.stages(); ++s) {
      choice.table.push_back(Describe(*best, s));
    }
    return choice;
  }

 private:
  // A way to divide the model and the workers.
  struct Plan {
    std::vector<size_t> order;
    std::vector<StageShare> shares;  // Of the workers in `order`.
    std::vector<int> cuts;           // As EvaluateSplit takes them.
    StageBalance slowest;            // Of the slowest worker of each stage.
    double seconds = 0;              // Of a step.
  };

  bool late() const { return MonotonicNow() - began_ > kMostTime; }

  // Returns the orders to try. The first one is that of workers_.
  std::vector<std::vector<size_t>> Orders() const {
    std::vector<size_t> given(workers_.size());
    std::iota(given.begin(), given.end(), 0);
    std::vector<std::vector<size_t>> orders;
    if (given.size() <= kMostPermuted) {
      do {
        orders.push_back(given);
      } while (std::next_permutation(given.begin(), given.end()));
      return orders;
    }
    orders.push_back(given);
    std::vector<size_t> descending = given;
    std::stable_sort(
        descending.begin(), descending.end(), [this](size_t a, size_t b) {
          return std::make_pair(costs_.speeds[a], costs_.memory_bytes[a]) >
                 std::make_pair(costs_.speeds[b], costs_.memory_bytes[b]);
        });
    orders.push_back(descending);
    // The slowest ones are left over.
    const size_t stages = static_cast<size_t>(assignment_.stages());
    const size_t replicas = std::clamp<size_t>(workers_.size() / stages, 1,
                                               assignment_.micro_batches());
    const size_t active = std::min(workers_.size(), replicas * stages);
    std::vector<size_t> ascending = descending;
    std::reverse(ascending.begin(), ascending.begin() + active);
    orders.push_back(ascending);
    if (replicas < 2) return orders;
    for (const std::vector<size_t>& sorted : {descending, ascending}) {
      std::vector<size_t> by_stage = sorted;
      for (size_t i = 0; i < active; ++i) {
        by_stage[i % replicas * stages + i / replicas] = sorted[i];
      }
      orders.push_back(by_stage);
    }
    return orders;
  }

  absl::StatusOr<Plan> BestPlan(bool shares_memory) const {
    absl::Status error;
    std::optional<Plan> best;
    std::vector<std::vector<Devices>> tried;
    for (std::vector<size_t>& order : Orders()) {
      if (!tried.empty() && late()) break;
      Plan plan;
      plan.order = std::move(order);
      plan.shares = assignment_.Place(std::vector<StageShare>(workers_.size()));
      const std::vector<Devices> replicas = ReplicasOf(plan, shares_memory);
      const bool known = std::any_of(
          tried.begin(), tried.end(), [&](const std::vector<Devices>& other) {
            return std::equal(replicas.begin(), replicas.end(), other.begin(),
                              other.end(), &SameDevices);
          });
      if (known) continue;
      tried.push_back(replicas);
      const absl::Status balanced = Balance(replicas, &plan);
      if (!balanced.ok()) {
        if (error.ok()) error = balanced;
      } else if (!best.has_value() ||
                 plan.seconds * kOrderGain < best->seconds) {
        best = std::move(plan);
      }
    }
    if (!best.has_value()) return error;
    return *std::move(best);
  }

  // Returns the devices of each replica.
  std::vector<Devices> ReplicasOf(const Plan& plan, bool shares_memory) const {
    std::map<std::string, int64_t> sharers;
    for (size_t i = 0; i < plan.shares.size(); ++i) {
      const Ready* const report = workers_[plan.order[i]].report;
      if (plan.shares[i].spare() || report == nullptr) continue;
      // Without a name, nothing is known about others.
      if (!report->memory_pool().empty()) ++sharers[report->memory_pool()];
    }
    std::map<int, Devices> replicas;
    for (size_t i = 0; i < plan.shares.size(); ++i) {
      const StageShare& share = plan.shares[i];
      if (share.spare()) continue;
      Devices& devices = replicas[share.replica];
      devices.resize(assignment_.stages());
      const size_t worker = plan.order[i];
      PipelineDevice device;
      device.speed = costs_.speeds[worker];
      // A named stage is the user's decision.
      if (!given_) device.memory_bytes = costs_.memory_bytes[worker];
      const Ready* const report = workers_[worker].report;
      const auto pool = report == nullptr ? sharers.end()
                                          : sharers.find(report->memory_pool());
      const int64_t parts = shares_memory && pool != sharers.end()
                                ? pool->second * share.stages.size()
                                : share.stages.size();
      if (device.memory_bytes < std::numeric_limits<int64_t>::max()) {
        device.memory_bytes /= parts;
      }
      std::fill(devices.begin() + share.stages.begin,
                devices.begin() + share.stages.end, device);
    }
    std::vector<Devices> list;
    for (auto& [number, devices] : replicas) list.push_back(std::move(devices));
    return list;
  }

  // Chooses the cuts for these replicas.
  absl::Status Balance(const std::vector<Devices>& replicas, Plan* plan) const {
    std::vector<Devices> kinds;
    std::vector<size_t> kind_of;  // Of each replica.
    for (const Devices& devices : replicas) {
      const auto kind = std::find_if(
          kinds.begin(), kinds.end(),
          [&](const Devices& other) { return SameDevices(devices, other); });
      kind_of.push_back(kind - kinds.begin());
      if (kind == kinds.end()) kinds.push_back(devices);
    }
    const Devices slowest = SlowestOf(kinds);
    TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<std::vector<int>> candidates,
                               CutsFor(kinds, slowest, replicas.size()));
    plan->seconds = std::numeric_limits<double>::infinity();
    absl::Status error;
    for (const std::vector<int>& cuts : candidates) {
      const absl::StatusOr<double> seconds = StepSeconds(kinds, kind_of, cuts);
      if (!seconds.ok()) error = seconds.status();
      if (!seconds.ok() || *seconds >= plan->seconds) continue;
      plan->seconds = *seconds;
      plan->cuts = cuts;
    }
    if (!std::isfinite(plan->seconds)) return error;
    TRIBUTARY_ASSIGN_OR_RETURN(
        plan->slowest,
        EvaluateSplit(InputFor(slowest, MostMicroBatches(replicas.size())),
                      plan->cuts));
    return absl::OkStatus();
  }

  // Returns the cuts to choose from. The first ones fit into the memory of all
  // replicas.
  absl::StatusOr<std::vector<std::vector<int>>> CutsFor(
      const std::vector<Devices>& kinds, const Devices& slowest,
      size_t replicas) const {
    if (given_) {
      std::vector<int> all(costs_.input.cuts.size());
      std::iota(all.begin(), all.end(), 0);
      return std::vector<std::vector<int>>{all};
    }
    std::vector<Devices> devices = {slowest};
    if (kinds.size() > 1) {
      devices.insert(devices.end(), kinds.begin(),
                     kinds.begin() + std::min(kinds.size(), kMostKinds));
    }
    std::vector<std::vector<int>> candidates;
    for (const Devices& kind : devices) {
      if (!candidates.empty() && late()) break;
      TRIBUTARY_ASSIGN_OR_RETURN(
          const StageBalance balance,
          BalanceStages(InputFor(kind, MostMicroBatches(replicas))));
      std::vector<int> cuts;
      for (size_t s = 1; s < balance.stages.size(); ++s) {
        cuts.push_back(balance.stages[s].begin_layer - 1);
      }
      candidates.push_back(std::move(cuts));
    }
    return candidates;
  }

  // Returns the time of a step in which each replica computes as many
  // micro-batches as suits its speed.
  absl::StatusOr<double> StepSeconds(const std::vector<Devices>& kinds,
                                     const std::vector<size_t>& kind_of,
                                     const std::vector<int>& cuts) const {
    std::vector<double> bottlenecks;
    for (const Devices& devices : kinds) {
      TRIBUTARY_ASSIGN_OR_RETURN(
          const StageBalance balance,
          EvaluateSplit(InputFor(devices, MostMicroBatches(kind_of.size())),
                        cuts));
      bottlenecks.push_back(Bottleneck(balance));
    }
    StepCosts costs;
    for (const size_t kind : kind_of) {
      WorkerPace pace;
      pace.micro_batch_seconds =
          std::max(bottlenecks[kind], std::numeric_limits<double>::min());
      costs.workers.push_back(pace);
    }
    const Assignment leaves =
        ChooseAssignment(assignment_.micro_batches(), costs);
    std::vector<int64_t> most(kinds.size());
    for (size_t r = 0; r < kind_of.size(); ++r) {
      most[kind_of[r]] = std::max(most[kind_of[r]], leaves[r]);
    }
    double longest = 0;
    for (size_t kind = 0; kind < kinds.size(); ++kind) {
      if (most[kind] == 0) continue;
      TRIBUTARY_ASSIGN_OR_RETURN(
          const StageBalance balance,
          EvaluateSplit(InputFor(kinds[kind], most[kind]), cuts));
      longest = std::max(longest, balance.step_seconds);
    }
    return longest;
  }

  // Micro-batches of a replica if all have the same speed.
  int64_t MostMicroBatches(size_t replicas) const {
    const auto count = static_cast<int64_t>(replicas);
    return (assignment_.micro_batches() + count - 1) / count;
  }

  // Returns the names of the workers of a stage and, if they differ, speeds.
  std::string WorkersOf(const Plan& plan, int stage) const {
    const double fastest =
        *std::max_element(costs_.speeds.begin(), costs_.speeds.end());
    const double slowest =
        *std::min_element(costs_.speeds.begin(), costs_.speeds.end());
    std::vector<std::string> names;
    for (size_t i = 0; i < plan.shares.size(); ++i) {
      const StageRange& range = plan.shares[i].stages;
      if (stage < range.begin || stage >= range.end) continue;
      names.push_back(workers_[plan.order[i]].name);
      if (slowest == fastest) continue;
      absl::StrAppendFormat(&names.back(), " at %.2f of the highest speed",
                            costs_.speeds[plan.order[i]] / fastest);
    }
    const size_t left_out = names.size() - std::min(names.size(), kMostNames);
    names.resize(names.size() - left_out);
    return absl::StrCat(
        absl::StrJoin(names, ", "),
        left_out == 0 ? "" : absl::StrCat(" and ", left_out, " others"));
  }

  std::string Describe(const Plan& plan, int number) const {
    const BalancedStage& stage = plan.slowest.stages[number];
    const bool last = number + 1 == assignment_.stages();
    std::string line =
        absl::StrCat("stage ", number, ": layers ",
                     job_.segment(stage.begin_layer).first_layer(), " to ",
                     job_.segment(stage.end_layer - 1).last_layer(), " on ",
                     WorkersOf(plan, number), "; ");
    if (costs_.measured) {
      absl::StrAppendFormat(
          &line,
          "%.3f ms for a micro-batch (forward %.3f, backward %.3f + %.3f), ",
          1e3 * stage.seconds.total(), 1e3 * stage.seconds.forward,
          1e3 * stage.seconds.backward_input,
          1e3 * stage.seconds.backward_weights);
    }
    absl::StrAppendFormat(&line, "%.1f MB of memory",
                          1e-6 * static_cast<double>(stage.memory_bytes));
    if (!last) {
      absl::StrAppendFormat(&line, ", %.3f MB to the next stage",
                            1e-6 * static_cast<double>(stage.boundary_bytes));
    } else if (costs_.measured) {
      absl::StrAppendFormat(&line, "; expected step %.3f ms, bubble %.1f %%",
                            1e3 * plan.seconds, 100 * plan.slowest.bubble);
    }
    return line;
  }

  BalanceInput InputFor(const Devices& devices, int64_t micro_batches) const {
    BalanceInput input = costs_.input;
    input.devices = devices;
    input.micro_batches = static_cast<int>(micro_batches);
    return input;
  }

  const StageMap& segments_;
  const Ready& job_;
  const StageAssignment& assignment_;
  const std::vector<StageWorker>& workers_;
  const bool given_;  // There is one way to divide the model.
  const absl::Time began_ = MonotonicNow();
  StageCosts costs_;
};

}  // namespace

absl::StatusOr<StageChoice> ChooseStages(
    const PipelineSpec& spec, const StageAssignment& assignment,
    const StageMap& segments, const Ready& job,
    const std::vector<StageWorker>& workers) {
  return StageChooser(spec, assignment, segments, job, workers).Choose();
}

}  // namespace tributary

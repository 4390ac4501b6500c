#include "common/pipeline/stage_balance.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/pipeline/pipeline_timeline.h"
#include "common/pipeline/stage_partition.h"

namespace tributary {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Relative differences below this one may be rounding errors.
constexpr double kRounding = 1e-9;

// A step of m micro-batches takes about as long as one micro-batch takes to
// pass through the pipeline, and m - 1 times the bottleneck. To find splits
// that are good in both, the first time is minimized for bottlenecks of up to
// these multiples of the smallest one, of which the last hardly limits it.
constexpr double kBottleneckSlacks[] = {1, 1.2, 1.6, 2.5, 100};

// Returns a + factor * b.
LayerCost Add(const LayerCost& a, const LayerCost& b, int factor) {
  LayerCost sum = a;
  sum.seconds.forward += factor * b.seconds.forward;
  sum.seconds.backward_input += factor * b.seconds.backward_input;
  sum.seconds.backward_weights += factor * b.seconds.backward_weights;
  sum.activation_bytes += factor * b.activation_bytes;
  sum.weight_pass_bytes += factor * b.weight_pass_bytes;
  sum.parameter_bytes += factor * b.parameter_bytes;
  sum.learner_bytes += factor * b.learner_bytes;
  return sum;
}

// The unit is the segment: the layers between two neighbouring cuts. A split is
// described by its bounds: the first segment of each stage, and the number of
// segments at the end.
class StageBalancer {
 public:
  explicit StageBalancer(const BalanceInput& input)
      : input_(input),
        stages_(static_cast<int>(input.devices.size())),
        segments_(static_cast<int>(input.cuts.size()) + 1),
        splits_backward_(TraitsOf(input.schedule).splits_backward) {
    for (int stage = 0; stage < stages_; ++stage)
      limits_.push_back(TraitsOf(input.schedule)
                            .limits({stages_, stage, input.micro_batches}));
    LayerCost sum;
    int layer = 0;
    for (int segment = 0; segment <= segments_; ++segment) {
      for (; layer < FirstLayer(segment); ++layer)
        sum = Add(sum, input.layers[layer].cost, 1);
      before_.push_back(sum);
    }
  }

  absl::StatusOr<StageBalance> Balance() const {
    if (segments_ < stages_) {
      return absl::InvalidArgumentError(absl::StrCat(
          stages_, " stages need ", stages_ - 1, " cuts, but the model has ",
          segments_ - 1, " places at which it can be cut"));
    }
    const std::vector<int> fastest = MinimizeLargestCost(
        segments_, stages_, [this](int stage, int begin, int end) {
          return Occupancy(stage, begin, end);
        });
    if (fastest.empty()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no split into ", stages_,
                       " stages fits into memory; in the best one, ",
                       CheckMemory(LeastShortage()).message()));
    }
    std::vector<int> best = fastest;
    double shortest = Simulate(best).seconds;
    for (const double slack : kBottleneckSlacks) {
      std::vector<int> split = ShortestPath(slack * Bottleneck(fastest));
      const double seconds = Simulate(split).seconds;
      if (seconds >= shortest) continue;
      best = std::move(split);
      shortest = seconds;
    }
    return Summarize(Refine(std::move(best)));
  }

  // Returns the error of the stage that misses the most memory.
  absl::Status CheckMemory(const std::vector<int>& bounds) const {
    int worst = 0;
    int64_t shortage = 0;
    for (int stage = 0; stage < stages_; ++stage) {
      const int64_t missing = Shortage(stage, bounds[stage], bounds[stage + 1]);
      if (missing <= shortage) continue;
      worst = stage;
      shortage = missing;
    }
    if (shortage == 0) return absl::OkStatus();
    const int begin = bounds[worst];
    const int end = bounds[worst + 1];
    return absl::ResourceExhaustedError(
        absl::StrCat("stage ", worst, " (", LayerNames(begin, end), ") needs ",
                     Memory(worst, begin, end), " bytes, ", shortage,
                     " more than its device has"));
  }

  StageBalance Summarize(const std::vector<int>& bounds) const {
    const PipelineTimeline timeline = Simulate(bounds);
    StageBalance balance;
    for (int stage = 0; stage < stages_; ++stage) {
      const int begin = bounds[stage];
      const int end = bounds[stage + 1];
      balance.stages.push_back({FirstLayer(begin), FirstLayer(end),
                                Seconds(stage, begin, end),
                                Memory(stage, begin, end), CutBytes(end)});
    }
    balance.step_seconds = timeline.seconds;
    balance.bubble = timeline.bubble;
    return balance;
  }

  int segments() const { return segments_; }

 private:
  int FirstLayer(int segment) const {
    if (segment == 0) return 0;
    return segment < segments_ ? input_.cuts[segment - 1].layer
                               : static_cast<int>(input_.layers.size());
  }

  std::string LayerNames(int begin, int end) const {
    const std::string& first = input_.layers[FirstLayer(begin)].name;
    const std::string& last = input_.layers[FirstLayer(end) - 1].name;
    return first == last ? first : absl::StrCat(first, " to ", last);
  }

  // Returns the bytes that cross the cut before `segment`.
  int64_t CutBytes(int segment) const {
    return segment == 0 || segment == segments_
               ? 0
               : input_.cuts[segment - 1].bytes;
  }

  LayerCost Cost(int begin, int end) const {
    return Add(before_[end], before_[begin], -1);
  }

  PassSeconds Seconds(int stage, int begin, int end) const {
    const double speed = input_.devices[stage].speed;
    const PassSeconds sum = Cost(begin, end).seconds;
    return {sum.forward / speed, sum.backward_input / speed,
            sum.backward_weights / speed};
  }

  BoundarySeconds Transfer(int boundary, int segment) const {
    if (input_.links.empty()) return {};
    const PipelineLink& link = input_.links[boundary];
    const double seconds = CutBytes(segment) / link.bytes_per_second;
    return {seconds, seconds, link.latency_seconds};
  }

  int64_t Memory(int stage, int begin, int end) const {
    const StageLimits& limits = limits_[stage];
    const LayerCost cost = Cost(begin, end);
    int64_t held = limits.in_flight * cost.activation_bytes +
                   limits.delayed * cost.weight_pass_bytes;
    // The end of a backward pass turns the one kind of memory into the other.
    if (splits_backward_)
      held +=
          std::max<int64_t>(0, cost.weight_pass_bytes - cost.activation_bytes);
    return cost.parameter_bytes + held +
           input_.micro_batches * cost.learner_bytes +
           kStageQueueCapacity * (CutBytes(begin) + CutBytes(end));
  }

  // Returns the bytes that a stage's device misses.
  int64_t Shortage(int stage, int begin, int end) const {
    return std::max<int64_t>(
        0, Memory(stage, begin, end) - input_.devices[stage].memory_bytes);
  }

  // Returns the time for which a micro-batch occupies the stage or the link
  // before it, whichever is longer.
  double Occupancy(int stage, int begin, int end) const {
    if (Shortage(stage, begin, end) > 0) return kInfinity;
    const double seconds = Seconds(stage, begin, end).total();
    return stage == 0 ? seconds
                      : std::max(seconds, Transfer(stage - 1, begin).forward);
  }

  double Bottleneck(const std::vector<int>& bounds) const {
    double bottleneck = 0;
    for (int stage = 0; stage < stages_; ++stage)
      bottleneck = std::max(bottleneck,
                            Occupancy(stage, bounds[stage], bounds[stage + 1]));
    return bottleneck;
  }

  PipelineTimeline Simulate(const std::vector<int>& bounds) const {
    PipelineStep step;
    step.schedule = input_.schedule;
    step.micro_batches = input_.micro_batches;
    for (int stage = 0; stage < stages_; ++stage) {
      step.stages.push_back(Seconds(stage, bounds[stage], bounds[stage + 1]));
      if (stage > 0)
        step.boundaries.push_back(Transfer(stage - 1, bounds[stage]));
    }
    return SimulatePipeline(step);
  }

  // Returns the split whose largest shortage of memory is the smallest.
  std::vector<int> LeastShortage() const {
    return MinimizeLargestCost(segments_, stages_,
                               [this](int stage, int begin, int end) -> double {
                                 return Shortage(stage, begin, end);
                               });
  }

  // Returns the split with which one micro-batch passes through the pipeline
  // and back in the shortest time, among those whose bottleneck is at most
  // `limit`.
  std::vector<int> ShortestPath(double limit) const {
    const double rounded_up = limit * (1 + kRounding);
    return MinimizeSumOfCosts(
        segments_, stages_, [&](int stage, int begin, int end) {
          if (Occupancy(stage, begin, end) > rounded_up) return kInfinity;
          const double seconds = Seconds(stage, begin, end).total();
          if (stage == 0) return seconds;
          const BoundarySeconds transfer = Transfer(stage - 1, begin);
          return seconds + transfer.forward + transfer.backward +
                 2 * transfer.latency;
        });
  }

  // Moves cuts as long as that makes the simulated step shorter. Neighbouring
  // cuts also move together: a stage may pass a layer on to the next but one.
  std::vector<int> Refine(std::vector<int> bounds) const {
    double seconds = Simulate(bounds).seconds;
    for (bool shorter = true; shorter;) {
      shorter = false;
      for (int first = 1; first < stages_; ++first)
        for (int last = first; last < stages_; ++last)
          for (int distance = 1; distance < segments_; distance *= 2)
            for (const int by : {-distance, distance})
              shorter |= TryMove(first, last, by, &bounds, &seconds);
    }
    return bounds;
  }

  // Moves the beginnings of the stages `first` to `last` if that makes the step
  // shorter than `seconds`.
  bool TryMove(int first, int last, int by, std::vector<int>* bounds,
               double* seconds) const {
    std::vector<int> moved = *bounds;
    for (int stage = first; stage <= last; ++stage) moved[stage] += by;
    if (moved[first] <= moved[first - 1] || moved[last] >= moved[last + 1])
      return false;
    const double limit = *seconds * (1 - kRounding);
    if (input_.micro_batches * Bottleneck(moved) >= limit) return false;
    const double simulated = Simulate(moved).seconds;
    if (simulated >= limit) return false;
    *bounds = std::move(moved);
    *seconds = simulated;
    return true;
  }

  const BalanceInput& input_;
  const int stages_;
  const int segments_;
  const bool splits_backward_;
  std::vector<StageLimits> limits_;  // Indexed by stage.
  // Sums over all layers before a segment, indexed by segment.
  std::vector<LayerCost> before_;
};

}  // namespace

absl::StatusOr<StageBalance> BalanceStages(const BalanceInput& input) {
  return StageBalancer(input).Balance();
}

absl::StatusOr<StageBalance> EvaluateSplit(const BalanceInput& input,
                                           absl::Span<const int> cuts) {
  const StageBalancer balancer(input);
  std::vector<int> bounds = {0};
  for (const int cut : cuts) bounds.push_back(cut + 1);
  bounds.push_back(balancer.segments());
  absl::Status fits = balancer.CheckMemory(bounds);
  if (!fits.ok()) return fits;
  return balancer.Summarize(bounds);
}

}  // namespace tributary

#include "server/run_mode/stage_costs.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/pipeline/pipeline_schedule.h"

namespace tributary {
namespace {

// Larger sums of bytes or seconds are mistakes, and could overflow.
constexpr int64_t kMostBytes = int64_t{1} << 48;
constexpr double kMostSeconds = 1e9;
// No worker computes a model in less time, by which others are divided.
constexpr double kLeastSeconds = 1e-9;

double SecondsOf(const Ready& report) {
  double seconds = 0;
  for (const StageSegment& segment : report.segment()) {
    seconds += segment.forward_seconds() + segment.backward_input_seconds() +
               segment.backward_weights_seconds();
  }
  return seconds;
}

// Replaces speeds that are nearly equal by their mean.
void Equalize(std::vector<double>* speeds) {
  std::vector<size_t> order(speeds->size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [speeds](size_t a, size_t b) {
    return (*speeds)[a] > (*speeds)[b];
  });
  for (size_t begin = 0; begin < order.size();) {
    const double fastest = (*speeds)[order[begin]];
    double sum = 0;
    size_t end = begin;
    for (; end < order.size() && (*speeds)[order[end]] * kEqualSpeeds > fastest;
         ++end) {
      sum += (*speeds)[order[end]];
    }
    for (size_t i = begin; i < end; ++i) {
      (*speeds)[order[i]] = sum / static_cast<double>(end - begin);
    }
    begin = end;
  }
}

// Returns InvalidArgument unless the sum of the values is a sensible size.
template <typename Value>
absl::Status CheckSum(const char* field, const Ready& ready, Value most,
                      Value (StageSegment::*value)() const) {
  Value sum = 0;
  for (const StageSegment& segment : ready.segment()) {
    const Value one = (segment.*value)();
    // Also false for NaN.
    if (!(one >= 0 && one <= most && sum + one <= most)) {
      return absl::InvalidArgumentError(
          absl::StrCat("Ready.segment: ", field, " is ", one,
                       ", expected numbers whose sum is from 0 to ", most));
    }
    sum += one;
  }
  return absl::OkStatus();
}

BalanceInput InputOf(const PipelineSpec& spec, const Ready& job) {
  BalanceInput input;
  input.schedule = ScheduleOf(spec);
  for (int i = 0; i < job.segment_size(); ++i) {
    const StageSegment& segment = job.segment(i);
    PipelineLayer layer;
    layer.name = segment.first_layer();
    layer.cost.activation_bytes = segment.activation_bytes();
    layer.cost.weight_pass_bytes = segment.weight_pass_bytes();
    layer.cost.parameter_bytes = segment.parameter_bytes();
    layer.cost.learner_bytes = segment.learner_bytes();
    input.layers.push_back(std::move(layer));
    if (i > 0) input.cuts.push_back({i, segment.input_bytes()});
  }
  return input;
}

// Adds the times of a report, times `factor`.
void AddSeconds(const Ready& report, double factor, BalanceInput* input) {
  for (int i = 0; i < report.segment_size(); ++i) {
    const StageSegment& segment = report.segment(i);
    PassSeconds& pass = input->layers[i].cost.seconds;
    pass.forward += factor * segment.forward_seconds();
    pass.backward_input += factor * segment.backward_input_seconds();
    pass.backward_weights += factor * segment.backward_weights_seconds();
  }
}

// Returns the free memory of each worker. Workers that share memory have seen
// it at different times; the least of what they have seen counts.
std::vector<int64_t> MemoryOf(const std::vector<const Ready*>& reports) {
  std::vector<int64_t> memory(reports.size(),
                              std::numeric_limits<int64_t>::max());
  std::map<std::string, int64_t> pools;
  for (size_t w = 0; w < reports.size(); ++w) {
    if (reports[w] == nullptr || reports[w]->memory_bytes() == 0) continue;
    memory[w] = reports[w]->memory_bytes();
    const std::string& pool = reports[w]->memory_pool();
    if (pool.empty()) continue;
    int64_t& least = pools.try_emplace(pool, memory[w]).first->second;
    least = std::min(least, memory[w]);
  }
  for (size_t w = 0; w < reports.size(); ++w) {
    if (reports[w] == nullptr) continue;
    const auto pool = pools.find(reports[w]->memory_pool());
    if (pool != pools.end()) memory[w] = pool->second;
  }
  return memory;
}

}  // namespace

absl::Status CheckSegments(const PipelineSpec& spec, const Ready& ready) {
  const int count = ready.segment_size();
  const bool fixed = !spec.split().empty() || spec.stages() == 1;
  if (fixed ? count != spec.stages() : count < spec.stages()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Ready.segment has ", count,
        " segments, but parallel.pipeline.stages is ", spec.stages()));
  }
  if (!fixed && count > kMostSegments) {
    return absl::InvalidArgumentError(
        absl::StrCat("Ready.segment has ", count, " segments, at most ",
                     kMostSegments, " are allowed"));
  }
  if (ready.memory_bytes() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("Ready.memory_bytes is ", ready.memory_bytes()));
  }
  TRIBUTARY_RETURN_IF_ERROR(CheckSum("forward_seconds", ready, kMostSeconds,
                                     &StageSegment::forward_seconds));
  TRIBUTARY_RETURN_IF_ERROR(CheckSum("backward_input_seconds", ready,
                                     kMostSeconds,
                                     &StageSegment::backward_input_seconds));
  TRIBUTARY_RETURN_IF_ERROR(CheckSum("backward_weights_seconds", ready,
                                     kMostSeconds,
                                     &StageSegment::backward_weights_seconds));
  const double seconds = SecondsOf(ready);
  if (seconds != 0 && seconds < kLeastSeconds) {
    return absl::InvalidArgumentError(
        absl::StrCat("Ready.segment: all layers take ", seconds,
                     " s, expected 0 or at least ", kLeastSeconds));
  }
  TRIBUTARY_RETURN_IF_ERROR(CheckSum("activation_bytes", ready, kMostBytes,
                                     &StageSegment::activation_bytes));
  TRIBUTARY_RETURN_IF_ERROR(CheckSum("weight_pass_bytes", ready, kMostBytes,
                                     &StageSegment::weight_pass_bytes));
  TRIBUTARY_RETURN_IF_ERROR(CheckSum("parameter_bytes", ready, kMostBytes,
                                     &StageSegment::parameter_bytes));
  TRIBUTARY_RETURN_IF_ERROR(CheckSum("learner_bytes", ready, kMostBytes,
                                     &StageSegment::learner_bytes));
  return CheckSum("input_bytes", ready, kMostBytes, &StageSegment::input_bytes);
}

StageCosts ReadStageCosts(const PipelineSpec& spec, const Ready& job,
                          const std::vector<const Ready*>& reports) {
  StageCosts costs;
  costs.input = InputOf(spec, job);
  costs.speeds.assign(reports.size(), 1);
  costs.memory_bytes = MemoryOf(reports);
  std::vector<double> seconds(reports.size());
  double sum = 0;
  int measurements = 0;
  for (size_t w = 0; w < reports.size(); ++w) {
    if (reports[w] == nullptr) continue;
    seconds[w] = SecondsOf(*reports[w]);
    sum += seconds[w];
    if (seconds[w] > 0) ++measurements;
  }
  costs.measured = measurements > 0;
  if (!costs.measured) {
    for (PipelineLayer& layer : costs.input.layers) {
      layer.cost.seconds = {1, 1, 1};
    }
    return costs;
  }
  for (size_t w = 0; w < reports.size(); ++w) {
    if (seconds[w] <= 0) continue;
    costs.speeds[w] = sum / measurements / seconds[w];
    AddSeconds(*reports[w], costs.speeds[w] / measurements, &costs.input);
  }
  Equalize(&costs.speeds);
  return costs;
}

}  // namespace tributary

#include "tests/worker/exchange/conformance/exchange_workload.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/job/rounds.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/update_recipe.h"
#include "common/parameters/gradient_squares.h"
#include "common/parameters/trust_ratios.h"

namespace tributary {
namespace {

constexpr int64_t kChunkElements = 1024;  // One page.

ArenaLayout MakeLayout() {
  ParameterTable table;
  table.set_chunk_elements(kChunkElements);
  const std::pair<int64_t, OptimizerGroup> parameters[] = {
      {1500, DECAY},  {5, NO_DECAY}, {70, STATISTICS}, {1024 * 4, DECAY},
      {33, NO_DECAY}, {2500, DECAY}, {200, STATISTICS}};
  for (const auto& [size, group] : parameters) {
    auto* const parameter = table.add_parameter();
    parameter->set_name(absl::StrCat("p", size));
    parameter->add_shape(size);
    parameter->set_group(group);
  }
  table.mutable_parameter(3)->set_learning_rate_factor(0.3f);
  table.mutable_parameter(4)->set_learning_rate_factor(1.7f);
  return *ArenaLayout::Create(table);
}

JobSpec MakeJob(const std::string& optimizer) {
  JobSpec job;
  job.mutable_batch()->set_global(32);
  job.mutable_batch()->set_micro_batches(ExchangeWorkload::kMicroBatches);
  job.mutable_schedule()->set_warmup_steps(3);
  if (optimizer == "lamb") {
    job.mutable_optimizer()->mutable_lamb()->set_learning_rate(0.05);
    job.mutable_optimizer()->mutable_lamb()->set_weight_decay(0.1);
  } else if (optimizer == "adamw") {
    job.mutable_optimizer()->mutable_adamw()->set_learning_rate(0.01);
    job.mutable_optimizer()->mutable_adamw()->set_weight_decay(0.1);
  } else {
    job.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.1);
    job.mutable_optimizer()->mutable_sgd()->set_momentum(0.9);
    job.mutable_optimizer()->mutable_sgd()->set_weight_decay(0.01);
  }
  if (optimizer == "clip") job.set_clip_norm(0.5);
  if (optimizer == "skip") job.set_on_nonfinite(JobSpec::SKIP);
  return job;
}

// Returns a number in [-0.5, 0.5) that depends on all arguments.
float Noise(int64_t i, int64_t step, int micro_batch) {
  uint32_t x = static_cast<uint32_t>(i * 2654435761u + step * 40503u +
                                     micro_batch * 2246822519u + 12345u);
  x ^= x >> 15;
  x *= 2246822519u;
  x ^= x >> 13;
  return static_cast<float>(x) / 4294967296.f - 0.5f;
}

double SumOfSquares(const ArenaLayout& layout, int chunk,
                    const std::vector<float>& sum) {
  const std::vector<ChunkSegment> segments = layout.ChunkSegments(chunk);
  GradientSquares squares(segments);
  squares.Add(&sum[layout.ChunkBegin(chunk)], nullptr, layout.ChunkSize(chunk));
  return squares.Total();
}

// Returns the learning rate factors, with trust ratios, of all segments of
// `layout` by parameter: those of the first chunk, then those of the second.
// Directions are computed for a whole arena, which a pass never does.
std::vector<float> LambFactors(const ArenaLayout& layout,
                               const Optimizer& optimizer,
                               const UpdateStep& step,
                               const std::vector<float>& sum,
                               const std::vector<float>& weights,
                               std::vector<std::vector<float>> slots) {
  const OptimizerRule rule = *optimizer.DirectionAt(step.number);
  std::vector<float> directions(weights.size());
  std::vector<float*> state;
  for (auto& slot : slots) state.push_back(slot.data());
  UpdateArguments update;
  update.gradient_sum = sum.data();
  update.weights = weights.data();
  update.new_weights = directions.data();
  update.slots = absl::MakeSpan(state);
  const std::vector<ChunkSegment> whole = {
      {0, static_cast<int64_t>(weights.size()), DECAY}};
  update.segments = whole;
  OptimizerStep{rule, rule, step.gradient_scale}.Update(update);
  // The sums of the parts, in order.
  std::map<std::string, TensorSquares> of_parameters;
  const auto for_each_segment = [&](const auto& visit) {
    for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
      for (const ChunkSegment& segment :
           layout.ChunkSegments(chunk, /*by_parameter=*/true)) {
        const int64_t begin = layout.ChunkBegin(chunk) + segment.begin;
        visit(segment, begin, layout.ParameterAt(begin).name);
      }
    }
  };
  const auto squares = [](const float* x, int64_t count) {
    GradientSquares squares({});
    squares.Add(x, nullptr, count);
    return squares.Total();
  };
  for_each_segment(
      [&](const ChunkSegment& segment, int64_t begin, const std::string& name) {
        const int64_t count = segment.end - segment.begin;
        of_parameters[name].weights += squares(&weights[begin], count);
        of_parameters[name].direction += squares(&directions[begin], count);
      });
  std::vector<float> factors;
  for_each_segment([&](const ChunkSegment& segment, int64_t,
                       const std::string& name) {
    const TensorSquares& of_parameter = of_parameters[name];
    const auto ratio = static_cast<float>(std::sqrt(of_parameter.weights) /
                                          std::sqrt(of_parameter.direction));
    factors.push_back(segment.learning_rate_factor *
                      (segment.group == DECAY ? ratio : 1));
  });
  return factors;
}

}  // namespace

ExchangeWorkload::ExchangeWorkload(const std::string& optimizer)
    : job(MakeJob(optimizer)), layout(MakeLayout()) {}

std::vector<LeafRange> ExchangeWorkload::Assign(int workers) {
  std::vector<LeafRange> ranges;
  for (int i = 0; i < workers; ++i) {
    ranges.push_back(
        {i * kMicroBatches / workers, (i + 1) * kMicroBatches / workers});
  }
  return ranges;
}

double ExchangeWorkload::LossOf(int64_t step, int micro_batch) {
  return 0.1 * static_cast<double>(micro_batch) + static_cast<double>(step);
}

int64_t ExchangeWorkload::SampleCount() {
  int64_t count = 0;
  for (int i = 0; i < kMicroBatches; ++i) count += SampleCountOf(i);
  return count;
}

void ExchangeWorkload::Initialize(float* weights) const {
  std::memset(weights, 0, layout.arena_elements() * sizeof(float));
  for (const Parameter& parameter : layout.parameters()) {
    for (int64_t i = 0; i < parameter.size; ++i) {
      weights[parameter.offset + i] = Noise(i, 0, 77);
    }
  }
}

void ExchangeWorkload::Gradient(int64_t step, int micro_batch,
                                const float* weights, float* gradient) const {
  std::memset(gradient, 0, layout.arena_elements() * sizeof(float));
  for (const Parameter& parameter : layout.parameters()) {
    for (int64_t i = parameter.offset; i < parameter.offset + parameter.size;
         ++i) {
      gradient[i] = 0.3f * weights[i] + Noise(i, step, micro_batch);
    }
  }
  if (job.on_nonfinite() == JobSpec::SKIP && step == kSkippedStep &&
      micro_batch == 5) {
    gradient[kNonfinite] = std::numeric_limits<float>::infinity();
  }
}

void ExchangeWorkload::NodeSum(int64_t step, int node, const float* weights,
                               float* sum) const {
  if (node >= kMicroBatches) {
    return Gradient(step, node - kMicroBatches, weights, sum);
  }
  std::vector<float> right(layout.arena_elements());
  NodeSum(step, 2 * node, weights, sum);
  NodeSum(step, 2 * node + 1, weights, right.data());
  for (size_t i = 0; i < right.size(); ++i) sum[i] += right[i];
}

ExchangeReference::ExchangeReference(const ExchangeWorkload& workload) {
  const ArenaLayout& layout = workload.layout;
  const JobSpec& job = workload.job;
  const size_t size = layout.arena_elements();
  const auto optimizer = *Optimizer::Create(job.optimizer());
  const UpdateRecipe recipe(job, ExchangeWorkload::kSteps, StatisticsRate(job));
  std::vector<std::vector<float>> slots(optimizer->slots(),
                                        std::vector<float>(size));
  versions.emplace_back(size);
  workload.Initialize(versions[0].data());
  for (int64_t step = 0; step < ExchangeWorkload::kSteps; ++step) {
    const std::vector<float>& weights = versions[step];
    std::vector<float> sum(size);
    workload.NodeSum(step, /*node=*/1, weights.data(), sum.data());
    double total = 0;
    squares.emplace_back();
    for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
      squares[step].push_back(SumOfSquares(layout, chunk, sum));
      total += squares[step].back();
    }
    const int64_t samples = ExchangeWorkload::SampleCount();
    const double norm = std::sqrt(total) / static_cast<double>(samples);
    std::vector<float> next = weights;
    const UpdateStep at = recipe.At(step, samples, norm);
    std::vector<float> factors;
    if (job.optimizer().has_lamb()) {
      factors = LambFactors(layout, *optimizer, at, sum, weights, slots);
    }
    size_t next_factor = 0;
    for (int chunk = 0; chunk < layout.chunk_count() && !recipe.Skips(norm);
         ++chunk) {
      const int64_t begin = layout.ChunkBegin(chunk);
      std::vector<ChunkSegment> segments =
          layout.ChunkSegments(chunk, /*by_parameter=*/!factors.empty());
      for (ChunkSegment& segment : segments) {
        if (factors.empty()) break;
        segment.learning_rate_factor = factors[next_factor++];
      }
      std::vector<float*> state;
      for (auto& slot : slots) state.push_back(&slot[begin]);
      UpdateArguments update;
      update.gradient_sum = &sum[begin];
      update.weights = &weights[begin];
      update.new_weights = &next[begin];
      update.slots = absl::MakeSpan(state);
      update.segments = segments;
      optimizer->At(at).Update(update);
    }
    versions.push_back(std::move(next));
  }
}

}  // namespace tributary

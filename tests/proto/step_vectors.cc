#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "common/numerics/philox.h"
#include "common/optimizer/schedule.h"
#include "tests/proto/vectors.h"
#include "worker/training/local_sgd.h"

namespace tributary {
namespace {

constexpr int64_t kSteps = 10;

JobSpec ParsedJob(const std::string& text) {
  const absl::StatusOr<JobSpec> job = ParseJob(text, "job");
  if (!job.ok()) std::abort();
  return *job;
}

Vectors RateVectors() {
  Vectors list = Vectors::array();
  for (const char* schedule :
       {"", "schedule { warmup_steps: 4 }",
        "schedule { decay: LINEAR final_learning_rate: 0.01 }",
        "schedule { warmup_steps: 2 decay: COSINE final_learning_rate: 0.01 }",
        "schedule { decay: COSINE decay_steps: 6 }",
        "schedule { warmup_steps: 2 decay: STEP decay_every_steps: 3 "
        "decay_factor: 0.3 }",
        "schedule { warmup_steps: 1 decay: EXPONENTIAL decay_every_steps: 4 "
        "decay_factor: 0.5 }",
        "schedule { decay: POLYNOMIAL decay_steps: 8 power: 1.7 "
        "final_learning_rate: 0.01 }",
        "schedule { decay: ONE_CYCLE final_learning_rate: 0.001 }",
        "schedule { decay: ONE_CYCLE decay_steps: 8 rise_share: 0.05 "
        "rise_divisor: 10 final_learning_rate: 0.01 }",
        "schedule { decay: TABLE table { learning_rate: 0.1 } table { step: 4 "
        "learning_rate: 0.3 } table { step: 7 learning_rate: 0 } }"}) {
    const JobSpec job = ParsedJob(
        absl::StrCat("optimizer { sgd { learning_rate: 0.3 } } ", schedule));
    Vectors rates = Vectors::array();
    for (int64_t step = 0; step < kSteps; ++step) {
      rates.push_back(LearningRateAt(job, kSteps, step));
    }
    list.push_back({{"job", absl::StrCat("optimizer { sgd { learning_rate: "
                                         "0.3 } } ",
                                         schedule)},
                    {"steps", kSteps},
                    {"rates", rates}});
  }
  return list;
}

void Fill(uint32_t which, int64_t begin, int64_t end, float* values) {
  const RandomStream stream = {1, RandomPurpose::kMadeUpData, which, 1};
  for (int64_t i = begin; i < end; ++i) {
    values[i] = 2 * UniformFloat(stream.Block(i)[0]) - 1;
  }
}

// Steps of one micro-batch's local SGD: the third has no samples.
Vectors LocalSgdVectors(const std::string& text) {
  ParameterTable table;
  table.set_chunk_elements(16);
  ParameterTable::Parameter* parameter = table.add_parameter();
  parameter->set_name("weight");
  parameter->add_shape(4);
  parameter->add_shape(5);
  parameter->set_group(DECAY);
  parameter = table.add_parameter();
  parameter->set_name("bias");
  parameter->add_shape(4);
  parameter->set_group(NO_DECAY);
  const absl::StatusOr<ArenaLayout> layout = ArenaLayout::Create(table);
  if (!layout.ok()) std::abort();
  const int64_t elements = layout->arena_elements();
  const auto fill = [&](uint32_t which) {
    std::vector<float> arena(elements, 0.0f);
    Fill(which, 0, 20, arena.data());
    Fill(which, 32, 36, arena.data());
    return arena;
  };
  const auto local_sgd = LocalSgd::Create(ParsedJob(text), kSteps, &*layout);
  if (!local_sgd.ok()) std::abort();
  const std::vector<float> start = fill(0);
  (*local_sgd)->Begin(start.data(), /*first_step=*/2);
  Vectors steps = Vectors::array();
  for (uint32_t step = 1; step <= 5; ++step) {
    const std::vector<float> gradient = fill(step);
    const int64_t samples = step == 3 ? 0 : 10 + step;
    (*local_sgd)->Step(gradient.data(), samples);
    steps.push_back({{"gradient_sum", HexOf(gradient.data(), elements)},
                     {"samples", samples},
                     {"weights", HexOf((*local_sgd)->weights(), elements)}});
  }
  std::vector<float> outer(elements);
  (*local_sgd)->OuterGradient(outer.data());
  return {{"job", text},
          {"parameters",
           {{{"name", "weight"}, {"shape", {4, 5}}, {"group", "DECAY"}},
            {{"name", "bias"}, {"shape", {4}}, {"group", "NO_DECAY"}}}},
          {"total_steps", kSteps},
          {"first_step", 2},
          {"start", HexOf(start.data(), elements)},
          {"steps", steps},
          {"total_samples", (*local_sgd)->total_sample_count()},
          {"outer_gradient", HexOf(outer.data(), elements)}};
}

}  // namespace

Vectors StepVectors() {
  Vectors trajectories = Vectors::array();
  for (const char* job :
       {"optimizer { sgd { learning_rate: 0.1 momentum: 0 } }",
        "optimizer { sgd { learning_rate: 0.1 weight_decay: 0.05 } } "
        "clip_norm: 0.1",
        "optimizer { sgd { learning_rate: 0.1 nesterov: true } }",
        "optimizer { adam { learning_rate: 0.01 weight_decay: 0.1 } }",
        "optimizer { adamw { learning_rate: 0.01 weight_decay: 0.1 } } "
        "schedule { decay: COSINE }",
        "optimizer { adagrad { learning_rate: 0.1 rate_decay: 0.1 "
        "weight_decay: 0.05 } }",
        "optimizer { rmsprop { learning_rate: 0.01 weight_decay: 0.05 } }",
        "optimizer { rmsprop { learning_rate: 0.01 momentum: 0.9 "
        "weight_decay: 0.05 } }",
        "optimizer { adadelta { learning_rate: 1 weight_decay: 0.05 } }",
        "optimizer { lion { learning_rate: 0.01 weight_decay: 0.1 } }"}) {
    trajectories.push_back(LocalSgdVectors(job));
  }
  return {{"rates", RateVectors()}, {"trajectories", trajectories}};
}

}  // namespace tributary

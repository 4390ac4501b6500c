#include "tests/simulation/jobs/tiny_model.h"

#include <algorithm>
#include <limits>

#include "tests/simulation/jobs/random.h"

namespace tributary::simulation {
namespace {

// Returns a multiple of 2^-23 in [-1, 1).
float Number(uint64_t bits) {
  return static_cast<float>(static_cast<int64_t>(bits >> 40) - (1 << 23)) *
         (1.f / (1 << 23));
}

template <typename Function>
void ForEachElement(const ArenaLayout& layout, const Function& function) {
  for (const Parameter& parameter : layout.parameters()) {
    for (int64_t i = 0; i < parameter.size; ++i) function(parameter.offset + i);
  }
}

}  // namespace

void InitialWeights(const JobSpec& job, const ArenaLayout& layout,
                    float* arena) {
  std::fill_n(arena, layout.arena_elements(), 0.f);
  ForEachElement(layout, [&](int64_t i) {
    arena[i] = Number(Mix(job.seed(), static_cast<uint64_t>(i)));
  });
}

void MicroBatchGradient(const JobSpec& job, const ArenaLayout& layout,
                        int64_t step, int64_t micro_batch, int64_t sample_count,
                        const float* weights, float* gradient) {
  std::fill_n(gradient, layout.arena_elements(), 0.f);
  const uint64_t place = Mix(job.seed() + 7, static_cast<uint64_t>(step));
  const uint64_t own = Mix(place, static_cast<uint64_t>(micro_batch));
  const auto samples = static_cast<float>(sample_count);
  if (samples == 0) return;
  ForEachElement(layout, [&](int64_t i) {
    gradient[i] =
        (Number(Mix(own, static_cast<uint64_t>(i))) + 0.25f * weights[i]) *
        samples;
  });
  if (job.on_nonfinite() == JobSpec::SKIP && place % 8 == 0 &&
      (place >> 8) % static_cast<uint64_t>(job.batch().micro_batches()) ==
          static_cast<uint64_t>(micro_batch)) {
    gradient[layout.parameters().back().offset] =
        std::numeric_limits<float>::quiet_NaN();
  }
}

double MicroBatchLoss(const ArenaLayout& layout, int64_t micro_batch,
                      const float* weights) {
  double sum = static_cast<double>(micro_batch);
  ForEachElement(layout, [&](int64_t i) {
    sum += static_cast<double>(weights[i]) *
           static_cast<double>(i % 7 + micro_batch);
  });
  return sum;
}

LossSums EvaluatePiece(const ArenaLayout& layout, int64_t piece,
                       const float* weights) {
  LossSums sums;
  sums.loss = MicroBatchLoss(layout, piece + 3, weights);
  sums.correct = piece % 2;
  sums.sample_count = 1;
  return sums;
}

}  // namespace tributary::simulation

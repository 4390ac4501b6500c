#include "tests/simulation/world/tiny_model.h"

#include <algorithm>
#include <limits>

#include "tests/simulation/world/random.h"

namespace tributary::simulation {
namespace {

// In [-1, 1), a multiple of 2^-23.
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

void LeafGradient(const JobSpec& job, const ArenaLayout& layout, int64_t step,
                  int64_t leaf, const float* weights, float* gradient) {
  std::fill_n(gradient, layout.arena_elements(), 0.f);
  const uint64_t place = Mix(job.seed() + 7, static_cast<uint64_t>(step));
  const uint64_t own = Mix(place, static_cast<uint64_t>(leaf));
  const auto weight = static_cast<float>(LeafWeight(job, step, leaf));
  if (weight == 0) return;
  ForEachElement(layout, [&](int64_t i) {
    gradient[i] =
        (Number(Mix(own, static_cast<uint64_t>(i))) + 0.25f * weights[i]) *
        weight;
  });
  if (job.on_nonfinite() == JobSpec::SKIP && place % 8 == 0 &&
      (place >> 8) % static_cast<uint64_t>(job.batch().micro_batches()) ==
          static_cast<uint64_t>(leaf)) {
    gradient[layout.parameters().back().offset] =
        std::numeric_limits<float>::quiet_NaN();
  }
}

int64_t LeafWeight(const JobSpec& job, int64_t step, int64_t leaf) {
  if (leaf == 0) return 4;
  return static_cast<int64_t>(Mix(job.seed() + static_cast<uint64_t>(step),
                                  static_cast<uint64_t>(leaf)) %
                              5);
}

double LeafLoss(const ArenaLayout& layout, int64_t leaf, const float* weights) {
  double sum = static_cast<double>(leaf);
  ForEachElement(layout, [&](int64_t i) {
    sum += static_cast<double>(weights[i]) * static_cast<double>(i % 7 + leaf);
  });
  return sum;
}

int64_t BatchWeight(const JobSpec& job, int64_t step) {
  int64_t weight = 0;
  for (int64_t leaf = 0; leaf < job.batch().micro_batches(); ++leaf) {
    weight += LeafWeight(job, step, leaf);
  }
  return weight;
}

EvaluationReport EvaluatePiece(const ArenaLayout& layout, int64_t version,
                               int64_t piece, const float* weights) {
  EvaluationReport report;
  report.set_version(version);
  report.set_piece(piece);
  report.set_loss_sum(LeafLoss(layout, piece + 3, weights));
  report.set_correct(piece);
  report.set_weight(piece + 1);
  return report;
}

}  // namespace tributary::simulation

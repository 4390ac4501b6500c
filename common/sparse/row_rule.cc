#include "common/sparse/row_rule.h"

#include <emmintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/numerics/simd.h"
#include "common/parameters/arena_layout.h"

namespace tributary {
namespace {

// Stores past the caches, without loading the line first: the values before a
// step are seldom read. `to` is aligned to 16 bytes.
TRIBUTARY_INLINE void Stream(float* to, simd::Lanes value) {
  __m128 parts[4];
  std::memcpy(parts, &value, sizeof(value));
  for (int i = 0; i < 4; ++i) _mm_stream_ps(to + 4 * i, parts[i]);
}

// Row-wise Adagrad. With d = g * gradient_scale + weight_decay w:
//   s = s + mean(d^2)
//   w = w - rate / (sqrt(s) + epsilon) d
// Copies the old values to `before`. Element i of the sum of squares belongs to
// partial sum i % 16.
TRIBUTARY_MULTIVERSION __attribute__((noinline)) void UpdateRowWise(
    const float* __restrict g, float scale, float weight_decay, float rate,
    float epsilon, int64_t dim, float* __restrict w, float* __restrict state,
    float* __restrict before) {
  const int64_t whole = dim / simd::kLanes * simd::kLanes;
  // Whole cache lines only.
  const bool streams =
      whole == dim && reinterpret_cast<uintptr_t>(before) % 64 == 0;
  simd::Lanes sums = {};
  for (int64_t i = 0; i < whole; i += simd::kLanes) {
    const simd::Lanes old = simd::Load(w + i);
    const simd::Lanes d = simd::Load(g + i) * scale + old * weight_decay;
    if (streams) {
      Stream(before + i, old);
    } else {
      simd::Store(before + i, old);
    }
    sums += d * d;
  }
  if (whole < dim) {
    const simd::Lanes old = simd::LoadFirst(w + whole, dim - whole);
    const simd::Lanes d =
        simd::LoadFirst(g + whole, dim - whole) * scale + old * weight_decay;
    for (int64_t i = whole; i < dim; ++i) before[i] = old[i - whole];
    sums += d * d;
  }
  const float sum = state[0] + simd::Sum(sums) / static_cast<float>(dim);
  state[0] = sum;
  const float factor = rate / (std::sqrt(sum) + epsilon);
  for (int64_t i = 0; i < dim; ++i) {
    w[i] = w[i] - (g[i] * scale + w[i] * weight_decay) * factor;
  }
}

}  // namespace

void RowStep::Update(const float* gradient_sum, int dim, float* values,
                     float* state, float* before) const {
  if (row_wise_) {
    UpdateRowWise(gradient_sum, row_.gradient_scale, row_.weight_decay,
                  row_.rate, row_.epsilon, dim, values, state, before);
    return;
  }
  constexpr int kMostSlots = 8;
  float* slots[kMostSlots];
  for (int i = 0; i < slots_; ++i) slots[i] = state + int64_t{i} * dim;
  const ChunkSegment segment = {0, dim, DECAY, 1};
  std::copy_n(values, dim, before);
  UpdateArguments arguments;
  arguments.gradient_sum = gradient_sum;
  arguments.weights = before;
  arguments.new_weights = values;
  arguments.slots = absl::MakeConstSpan(slots, slots_);
  arguments.segments = absl::MakeConstSpan(&segment, 1);
  elements_.Update(arguments);
}

void RowStep::Finish() {
  // Orders streaming stores before the stores that publish them.
  _mm_sfence();
}

absl::StatusOr<RowRule> RowRule::Create(const SparseTableSpec& spec) {
  RowRule rule;
  OptimizerSpec elements;
  switch (spec.rule_case()) {
    case SparseTableSpec::kRowWiseAdagrad:
      rule.row_wise_ = spec.row_wise_adagrad();
      *elements.mutable_adagrad() = spec.row_wise_adagrad();
      break;
    case SparseTableSpec::kAdagrad:
      *elements.mutable_adagrad() = spec.adagrad();
      break;
    case SparseTableSpec::kSgd:
      *elements.mutable_sgd() = spec.sgd();
      break;
    case SparseTableSpec::kAdam:
      *elements.mutable_adam() = spec.adam();
      break;
    case SparseTableSpec::kAdamw:
      *elements.mutable_adamw() = spec.adamw();
      break;
    case SparseTableSpec::RULE_NOT_SET:
      break;  // Optimizer::Create says so.
  }
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer,
                             Optimizer::Create(elements));
  rule.learning_rate_ = PeakLearningRate(elements);
  if (spec.has_row_wise_adagrad()) {
    rule.slots_ = {{"sum", /*row_wise=*/true}};
    return rule;
  }
  for (std::string& name : optimizer->slot_names()) {
    rule.slots_.push_back({std::move(name), /*row_wise=*/false});
  }
  rule.optimizer_ = std::move(optimizer);
  return rule;
}

int RowRule::StateElements(int dim) const {
  int elements = 0;
  for (const Slot& slot : slots_) elements += slot.row_wise ? 1 : dim;
  return elements;
}

RowStep RowRule::At(int64_t number, float gradient_scale,
                    double rate_factor) const {
  RowStep step;
  const double rate = learning_rate_ * rate_factor;
  if (optimizer_ == nullptr) {
    const double divisor =
        1 + static_cast<double>(number) * row_wise_.rate_decay();
    step.row_wise_ = true;
    step.row_ = {static_cast<float>(rate / divisor),
                 static_cast<float>(row_wise_.epsilon()),
                 static_cast<float>(row_wise_.weight_decay()), gradient_scale};
    return step;
  }
  UpdateStep update;
  update.gradient_scale = gradient_scale;
  update.learning_rate = rate;
  update.number = number;
  step.elements_ = optimizer_->At(update);
  step.slots_ = static_cast<int>(slots_.size());
  return step;
}

}  // namespace tributary

#include "worker/models/synthetic_model.h"

#include <algorithm>
#include <array>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

constexpr int64_t kPeriod = 251;
// Number of elements in 4 KiB.
constexpr int64_t kProbeElements = 1024;

}  // namespace

float SyntheticGradient(int64_t element) {
  return static_cast<float>(element % kPeriod + 1) / 256;
}

absl::StatusOr<std::unique_ptr<Model>> SyntheticModel::Create(
    const SyntheticSpec& spec) {
  if (spec.parameters() < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.synthetic.parameters: ", spec.parameters(), " is not above 0"));
  }
  return std::unique_ptr<Model>(
      absl::WrapUnique(new SyntheticModel(spec.parameters())));
}

SyntheticModel::SyntheticModel(int64_t parameters)
    : parameters_(parameters),
      arena_elements_((parameters + kArenaAlignment - 1) / kArenaAlignment *
                      kArenaAlignment) {
  ParameterTable::Parameter* weights = table_.add_parameter();
  weights->set_name("weights");
  weights->add_shape(parameters);
  weights->set_group(NO_DECAY);
}

void SyntheticModel::Initialize(uint64_t /*seed*/, const ArenaLayout& layout,
                                float* weights) const {
  std::fill_n(weights, layout.arena_elements(), 0.0f);
}

bool SyntheticModel::Holds(const float* gradients, float samples) const {
  int64_t wrong = 0;
  for (int64_t i = 0; i < parameters_; i += kProbeElements) {
    wrong += gradients[i] != samples * SyntheticGradient(i);
  }
  const int64_t last = parameters_ - 1;
  wrong += gradients[last] != samples * SyntheticGradient(last);
  return wrong == 0;
}

void SyntheticModel::Fill(float* gradients, float samples) const {
  std::array<float, kPeriod> period;
  for (int64_t i = 0; i < kPeriod; ++i) {
    period[i] = samples * SyntheticGradient(i);
  }
  for (int64_t begin = 0; begin < parameters_; begin += kPeriod) {
    std::copy_n(period.begin(), std::min(kPeriod, parameters_ - begin),
                gradients + begin);
  }
  std::fill(gradients + parameters_, gradients + arena_elements_, 0.0f);
}

absl::StatusOr<LossSums> SyntheticModel::ForwardBackward(
    const Batch& batch, uint64_t /*seed*/, int64_t /*step*/,
    int /*micro_batch*/, const WeightsView& weights, GradientSink* gradients,
    StepObserver* /*observer*/) {
  if (!weights.Await(0, arena_elements_)) {
    return absl::AbortedError("the micro-batch was given up");
  }
  const auto samples = static_cast<float>(batch.samples);
  if (!Holds(gradients->data(), samples)) Fill(gradients->data(), samples);
  gradients->Ready(0);
  LossSums sums;
  sums.sample_count = batch.samples;
  return sums;
}

absl::StatusOr<LossSums> SyntheticModel::Evaluate(const Batch& batch,
                                                  const float* /*weights*/) {
  LossSums sums;
  sums.sample_count = batch.samples;
  return sums;
}

absl::Status SyntheticModel::NextTokenLogits(
    absl::Span<const int32_t> /*tokens*/, const float* /*weights*/,
    absl::Span<float> /*logits*/) {
  return absl::UnimplementedError("only model.gpt predicts tokens");
}

}  // namespace tributary

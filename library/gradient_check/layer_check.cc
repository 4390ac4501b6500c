#include "library/gradient_check/layer_check.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/numerics/philox.h"
#include "library/gradient_check/check_inputs.h"
#include "library/gradient_check/finite_differences.h"

namespace tributary {
namespace {

int64_t ElementCount(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1},
                         std::multiplies<int64_t>());
}

std::vector<double> ToDoubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

// Returns true if the two differ in any bit, except in the kind of a NaN.
bool Differ(const std::vector<float>& a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return true;
  }
  return false;
}

}  // namespace

LayerCheck::LayerCheck(const Layer& layer, const GradientCheckOptions& options)
    : layer_(layer), options_(options), spec_(layer.Spec()) {
  call_.device = device_.get();
  call_.samples = options.samples;
  call_.sample_count = options.samples;
  call_.training = true;
  call_.stream = RandomStream{options.seed, RandomPurpose::kDropout, 0, 0};
}

absl::Status LayerCheck::CheckSpec() const {
  if (spec_.output < 1 || spec_.inputs.size() > kMaxLayerInputs ||
      spec_.parameters.size() > kMaxLayerParameters ||
      *std::min_element(spec_.inputs.begin(), spec_.inputs.end()) < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "LayerSpec: the layer has ", spec_.inputs.size(), " inputs (at most ",
        kMaxLayerInputs, "), ", spec_.parameters.size(),
        " parameters (at most ", kMaxLayerParameters, ") and an output of ",
        spec_.output, " elements; sizes must be positive"));
  }
  for (const ParameterSpec& parameter : spec_.parameters) {
    if (ElementCount(parameter.shape) < 1 || parameter.padding < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "LayerSpec: the parameter ", parameter.name, " has no elements"));
    }
  }
  if (spec_.tokens && options_.tokens < 1) return MissingTokens();
  return absl::OkStatus();
}

absl::Status LayerCheck::Run() {
  TRIBUTARY_RETURN_IF_ERROR(CheckOptions(options_));
  if (spec_.inputs.empty()) {
    return absl::InvalidArgumentError("LayerSpec: the layer has no inputs");
  }
  TRIBUTARY_RETURN_IF_ERROR(CheckSpec());
  for (size_t i = 0; i < spec_.inputs.size(); ++i) {
    const int64_t size = options_.samples * spec_.inputs[i];
    inputs_.push_back(UniformNumbers(options_.seed,
                                     kInputStream + static_cast<uint32_t>(i),
                                     size, options_.input_range));
    if (HasGradient(i)) continue;
    tokens_ =
        UniformIntegers(options_.seed, kInputStream, size, options_.tokens);
  }
  for (const ParameterSpec& parameter : spec_.parameters) {
    offsets_.push_back(static_cast<int64_t>(arena_.size()));
    sizes_.push_back(ElementCount(parameter.shape));
    arena_.resize(arena_.size() +
                  static_cast<size_t>(sizes_.back() + parameter.padding));
  }
  for (size_t i = 0; i < sizes_.size(); ++i) {
    const auto stream = kWeightStream + static_cast<uint32_t>(i);
    InitializeValues(
        spec_.parameters[i].initializer,
        RandomStream{options_.seed, RandomPurpose::kInitialization, 0, stream},
        sizes_[i], WeightsOf(i));
    if (spec_.parameters[i].group == ParameterGroup::kStatistics) continue;
    Disturb(options_.seed, stream, sizes_[i], WeightsOf(i));
  }
  constants_ = spec_.constants;
  output_.resize(static_cast<size_t>(options_.samples * spec_.output));
  saved_.resize(
      static_cast<size_t>(layer_.SavedElements(*device_, options_.samples)));
  factors_ = UniformNumbers(options_.seed, kFactorStream,
                            static_cast<int64_t>(output_.size()), 1);
  TRIBUTARY_RETURN_IF_ERROR(CheckForward());
  const Gradients gradients = Backward(/*poison=*/false);
  TRIBUTARY_RETURN_IF_ERROR(CheckReads(gradients));
  return Compare(gradients);
}

void LayerCheck::Forward() {
  std::fill(output_.begin(), output_.end(), kUnwritten);
  std::fill(saved_.begin(), saved_.end(), kUnwritten);
  tensors_ = LayerTensors();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    tensors_.inputs[i] = AsReals(inputs_[i].data());
  }
  if (spec_.tokens) {
    tensors_.inputs[0] = reinterpret_cast<const Real*>(tokens_.data());
  }
  for (size_t i = 0; i < sizes_.size(); ++i) tensors_.weights[i] = WeightsOf(i);
  if (spec_.product_weight) {
    tensors_.product_weight = AsReals(tensors_.weights[0]);
  }
  if (!constants_.empty()) tensors_.constants = constants_.data();
  tensors_.output = AsReals(output_.data());
  if (!saved_.empty()) tensors_.saved = saved_.data();
  layer_.Forward(call_, tensors_);
}

absl::Status LayerCheck::CheckForward() {
  Forward();
  for (size_t i = 0; i < output_.size(); ++i) {
    if (std::isfinite(output_[i])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("Forward: the output, ",
                     ElementsOfSamples(spec_.output)(static_cast<int64_t>(i)),
                     ", is ", output_[i],
                     ": Forward has not written it, or the function is not "
                     "finite there (see GradientCheckOptions::input_range)"));
  }
  const std::vector<float> first = output_;
  Forward();
  if (!Differ(first, output_)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "Forward: two calls with equal arguments have different outputs; take "
      "random numbers from LayerCall::stream only");
}

LayerCheck::Gradients LayerCheck::Backward(bool poison) {
  Forward();
  std::vector<float> output_gradient = factors_;
  tensors_.output_gradient = AsReals(output_gradient.data());
  std::vector<std::vector<float>> inputs = inputs_;
  for (size_t i = 0; i < inputs.size() && poison; ++i) {
    if (spec_.backward_reads_input || !HasGradient(i)) continue;
    std::fill(inputs[i].begin(), inputs[i].end(), kUnwritten);
    tensors_.inputs[i] = AsReals(inputs[i].data());
  }
  if (poison && !spec_.backward_reads_output) {
    std::fill(output_.begin(), output_.end(), kUnwritten);
  }
  Gradients gradients;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    gradients.inputs.emplace_back(inputs_[i].size(), kUnwritten);
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!HasGradient(i)) continue;
    tensors_.input_gradients[i] = AsReals(gradients.inputs[i].data());
  }
  std::vector<float> arena(arena_.size(), kUnwritten);
  for (size_t i = 0; i < sizes_.size(); ++i) {
    tensors_.weight_gradients[i] = &arena[offsets_[i]];
  }
  layer_.Backward(call_, tensors_);
  for (size_t i = 0; i < sizes_.size(); ++i) {
    const float* const begin = &arena[offsets_[i]];
    gradients.weights.emplace_back(begin, begin + sizes_[i]);
  }
  return gradients;
}

absl::Status LayerCheck::CheckReads(const Gradients& gradients) {
  const auto differ = [&](const Gradients& others) {
    for (size_t i = 0; i < others.inputs.size(); ++i) {
      if (Differ(gradients.inputs[i], others.inputs[i])) return true;
    }
    for (size_t i = 0; i < others.weights.size(); ++i) {
      if (Differ(gradients.weights[i], others.weights[i])) return true;
    }
    return false;
  };
  if (differ(Backward(/*poison=*/false))) {
    return absl::InvalidArgumentError(
        "Backward: two calls with equal arguments have different results");
  }
  if (differ(Backward(/*poison=*/true))) {
    return absl::InvalidArgumentError(
        "Backward reads an input or the output; set "
        "LayerSpec::backward_reads_input or backward_reads_output");
  }
  return absl::OkStatus();
}

absl::Status LayerCheck::Compare(const Gradients& gradients) {
  const FiniteDifferences differences(
      [this] {
        Forward();
        return ToDoubles(output_);
      },
      ToDoubles(factors_), options_.tolerance, options_.elements);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!HasGradient(i)) continue;
    TRIBUTARY_RETURN_IF_ERROR(differences.Compare(
        absl::StrCat("input ", i), ElementsOfSamples(spec_.inputs[i]),
        static_cast<int64_t>(inputs_[i].size()), gradients.inputs[i].data(),
        inputs_[i].data()));
  }
  for (size_t i = 0; i < sizes_.size(); ++i) {
    const ParameterSpec& parameter = spec_.parameters[i];
    if (parameter.group == ParameterGroup::kStatistics) continue;
    TRIBUTARY_RETURN_IF_ERROR(differences.Compare(
        absl::StrCat("the parameter ", parameter.name), &ElementName, sizes_[i],
        gradients.weights[i].data(), WeightsOf(i)));
  }
  return absl::OkStatus();
}

}  // namespace tributary

#include "library/gradient_check/check_inputs.h"

#include "absl/strings/str_cat.h"
#include "common/numerics/philox.h"

namespace tributary {

std::vector<float> UniformNumbers(uint64_t seed, uint32_t stream, int64_t size,
                                  double range) {
  std::vector<float> values(static_cast<size_t>(size));
  InitializeValues(
      Initializer::Uniform(range),
      RandomStream{seed, RandomPurpose::kInitialization, 1, stream}, size,
      values.data());
  return values;
}

std::vector<int32_t> UniformIntegers(uint64_t seed, uint32_t stream,
                                     int64_t size, int64_t bound) {
  std::vector<int32_t> values(static_cast<size_t>(size));
  const RandomStream numbers{seed, RandomPurpose::kInitialization, 2, stream};
  for (int64_t i = 0; i < size; ++i) {
    values[i] = static_cast<int32_t>(numbers.Block(i / 4)[i % 4] %
                                     static_cast<uint32_t>(bound));
  }
  return values;
}

void Disturb(uint64_t seed, uint32_t stream, int64_t size, float* values) {
  const std::vector<float> noise = UniformNumbers(seed, stream, size, 0.5);
  for (int64_t i = 0; i < size; ++i) values[i] += noise[i];
}

std::string ElementName(int64_t element) {
  return absl::StrCat("element ", element);
}

std::function<std::string(int64_t)> ElementsOfSamples(int64_t per_sample) {
  return [per_sample](int64_t element) {
    return absl::StrCat("element ", element % per_sample, " of sample ",
                        element / per_sample);
  };
}

absl::Status CheckOptions(const GradientCheckOptions& options) {
  if (options.samples >= 1 && options.tolerance > 0 && options.classes >= 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "GradientCheckOptions: samples, tolerance and classes must be positive");
}

absl::Status MissingTokens() {
  return absl::InvalidArgumentError(
      "GradientCheckOptions::tokens must be set, because a layer reads tokens");
}

}  // namespace tributary

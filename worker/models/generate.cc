#include "worker/models/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/numerics/philox.h"

namespace tributary {
namespace {

constexpr int kVocabulary = 256;

absl::Status CheckOptions(const GenerateOptions& options) {
  if (options.bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("bytes is ", options.bytes, ", expected 0 or more"));
  }
  if (!(options.temperature >= 0) || std::isinf(options.temperature)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "temperature is ", options.temperature, ", expected 0 or more"));
  }
  if (options.top_k < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("top_k is ", options.top_k, ", expected 0 or more"));
  }
  return absl::OkStatus();
}

// Returns number `index` of the stream, in [0, 1) with 53 random bits.
double UniformDouble(const RandomStream& stream, uint64_t index) {
  const PhiloxBlock block = stream.Block(index);
  const uint64_t bits = (uint64_t{block[0]} << 32) | block[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace

absl::StatusOr<int> DrawToken(absl::Span<const float> logits,
                              const GenerateOptions& options, double uniform) {
  for (const float logit : logits) {
    if (!std::isfinite(logit)) {
      return absl::InvalidArgumentError(
          "the model's output is not a number: its weights are damaged, or "
          "training diverged (try a smaller learning rate)");
    }
  }
  // Likeliest first; ties in ascending order.
  std::vector<int> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return logits[a] > logits[b]; });
  if (options.temperature == 0) return order[0];
  size_t kept = order.size();
  if (options.top_k > 0) {
    kept = std::min(kept, static_cast<size_t>(options.top_k));
  }
  std::vector<double> cumulative(kept);
  double sum = 0;
  for (size_t i = 0; i < kept; ++i) {
    const double above = double{logits[order[i]]} - double{logits[order[0]]};
    sum += std::exp(above / options.temperature);
    cumulative[i] = sum;
  }
  const auto chosen =
      std::upper_bound(cumulative.begin(), cumulative.end(), uniform * sum);
  // The product may round up to the whole sum.
  const size_t index = std::min<size_t>(chosen - cumulative.begin(), kept - 1);
  return order[index];
}

absl::StatusOr<std::string> GenerateText(Model* model, const float* weights,
                                         absl::string_view prompt,
                                         const GenerateOptions& options) {
  TRIBUTARY_RETURN_IF_ERROR(CheckOptions(options));
  std::vector<int32_t> tokens;
  for (const char c : prompt) tokens.push_back(static_cast<unsigned char>(c));
  if (tokens.empty()) tokens.push_back('\n');
  RandomStream stream;
  stream.seed = options.seed;
  stream.purpose = RandomPurpose::kGeneration;
  std::vector<float> logits(kVocabulary);
  std::string text;
  for (int64_t i = 0; i < options.bytes; ++i) {
    TRIBUTARY_RETURN_IF_ERROR(
        model->NextTokenLogits(tokens, weights, absl::MakeSpan(logits)));
    TRIBUTARY_ASSIGN_OR_RETURN(
        const int token, DrawToken(logits, options, UniformDouble(stream, i)));
    tokens.push_back(token);
    text.push_back(static_cast<char>(token));
  }
  return text;
}

}  // namespace tributary

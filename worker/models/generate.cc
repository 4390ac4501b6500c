#include "worker/models/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/numerics/philox.h"

namespace tributary {
namespace {

// Returns number `index` of the stream, in [0, 1) with 53 random bits.
double UniformDouble(const RandomStream& stream, uint64_t index) {
  const PhiloxBlock block = stream.Block(index);
  const uint64_t bits = (uint64_t{block[0]} << 32) | block[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

// Returns the positions of the `count` largest logits, likeliest first; ties in
// ascending order.
std::vector<int> Likeliest(absl::Span<const float> logits, size_t count) {
  std::vector<int> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(
      order.begin(), order.begin() + count, order.end(), [&](int a, int b) {
        return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
      });
  order.resize(count);
  return order;
}

}  // namespace

absl::Status CheckGenerateOptions(const GenerateOptions& options) {
  if (options.tokens < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokens is ", options.tokens, ", expected 0 or more"));
  }
  if (!(options.temperature >= 0) || std::isinf(options.temperature)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "temperature is ", options.temperature, ", expected 0 or more"));
  }
  if (options.top_k < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("top_k is ", options.top_k, ", expected 0 or more"));
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "top_p is ", options.top_p, ", expected above 0 and at most 1"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> DrawToken(absl::Span<const float> logits,
                              const GenerateOptions& options, double uniform) {
  for (const float logit : logits) {
    if (!std::isfinite(logit)) {
      return absl::InvalidArgumentError(
          "the model's output is not a number: its weights are damaged, or "
          "training diverged (try a smaller learning rate)");
    }
  }
  if (options.temperature == 0) {
    return static_cast<int>(std::max_element(logits.begin(), logits.end()) -
                            logits.begin());
  }
  size_t kept = logits.size();
  if (options.top_k > 0) {
    kept = std::min(kept, static_cast<size_t>(options.top_k));
  }
  const std::vector<int> order = Likeliest(logits, kept);
  std::vector<double> cumulative(kept);
  double sum = 0;
  for (size_t i = 0; i < kept; ++i) {
    const double above = double{logits[order[i]]} - double{logits[order[0]]};
    sum += std::exp(above / options.temperature);
    cumulative[i] = sum;
  }
  if (options.top_p < 1) {
    const auto last = std::lower_bound(cumulative.begin(), cumulative.end(),
                                       options.top_p * sum);
    kept = std::min<size_t>(last - cumulative.begin() + 1, kept);
    cumulative.resize(kept);
    sum = cumulative.back();
  }
  const auto chosen =
      std::upper_bound(cumulative.begin(), cumulative.end(), uniform * sum);
  // The product may round up to the whole sum.
  const size_t index = std::min<size_t>(chosen - cumulative.begin(), kept - 1);
  return order[index];
}

absl::Status GenerateTokens(const NextLogits& next, int64_t vocabulary,
                            std::vector<int32_t> prompt,
                            const GenerateOptions& options,
                            const std::function<bool(int32_t token)>& take) {
  TRIBUTARY_RETURN_IF_ERROR(CheckGenerateOptions(options));
  RandomStream stream;
  stream.seed = options.seed;
  stream.purpose = RandomPurpose::kGeneration;
  std::vector<int32_t> tokens = std::move(prompt);
  std::vector<float> logits(static_cast<size_t>(vocabulary));
  for (int64_t i = 0; i < options.tokens; ++i) {
    TRIBUTARY_RETURN_IF_ERROR(next(tokens, absl::MakeSpan(logits)));
    TRIBUTARY_ASSIGN_OR_RETURN(
        const int token, DrawToken(logits, options, UniformDouble(stream, i)));
    if (options.end.has_value() && token == *options.end) break;
    if (!take(token)) break;
    tokens.push_back(token);
  }
  return absl::OkStatus();
}

}  // namespace tributary

// Generation of tokens with a trained language model.
#ifndef TRIBUTARY_WORKER_MODELS_GENERATE_H_
#define TRIBUTARY_WORKER_MODELS_GENERATE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

namespace tributary {

struct GenerateOptions {
  // Maximum number of tokens to generate.
  int64_t tokens = 200;
  // Divisor of the logits before the softmax. 0 always selects the likeliest
  // token; values below 1 make likely tokens likelier, and values above 1 make
  // the choice more even.
  double temperature = 0.8;
  // Number of likeliest tokens to choose from; 0 stands for all. If several
  // tokens at the limit are equally likely, those with the smallest ids are
  // kept.
  int64_t top_k = 0;
  // Chooses among the smallest number of likeliest tokens whose probabilities
  // sum to at least this value (nucleus sampling: Holtzman et al., 2020), after
  // temperature and top_k. In (0, 1]; 1 stands for all.
  double top_p = 1;
  // Seed of the random choices. The same seed, weights, prompt and options
  // yield the same tokens on the same kind of device.
  uint64_t seed = 1;
  // The token that ends the text, if there is one.
  absl::optional<int32_t> end;
};

// Returns InvalidArgument, naming the option, if a value is out of range.
absl::Status CheckGenerateOptions(const GenerateOptions& options);

// Draws a token from the distribution that `logits` describes, using `uniform`,
// a number in [0, 1). Returns the token's index in `logits`. A pure function,
// computed in float64. Of `options`, uses only temperature, top_k and top_p.
// Returns InvalidArgument if a logit is not finite, which indicates damaged
// weights.
absl::StatusOr<int> DrawToken(absl::Span<const float> logits,
                              const GenerateOptions& options, double uniform);

// Writes to `logits` the logits of the token that follows `tokens`, one for
// each token of the vocabulary. See GptDecoder::NextTokenLogits.
using NextLogits = std::function<absl::Status(absl::Span<const int32_t> tokens,
                                              absl::Span<float> logits)>;

// Generates the tokens that follow `prompt`, which must not be empty, and
// passes each of them to `take` as soon as it is drawn. `next` computes the
// logits; `vocabulary` is their number. Ends after options.tokens tokens, when
// `take` returns false, or when options.end is drawn, which is not passed to
// `take`. Returns the errors of CheckGenerateOptions, `next` and DrawToken.
absl::Status GenerateTokens(const NextLogits& next, int64_t vocabulary,
                            std::vector<int32_t> prompt,
                            const GenerateOptions& options,
                            const std::function<bool(int32_t token)>& take);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_GENERATE_H_

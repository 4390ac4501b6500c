// Text generation with a trained language model, byte by byte.
#ifndef TRIBUTARY_WORKER_MODELS_GENERATE_H_
#define TRIBUTARY_WORKER_MODELS_GENERATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/models/model.h"

namespace tributary {

struct GenerateOptions {
  // Number of bytes to generate.
  int64_t bytes = 200;
  // Divisor of the logits before the softmax. 0 always selects the likeliest
  // byte; values below 1 make likely bytes likelier, and values above 1 make
  // the choice more even.
  double temperature = 0.8;
  // Number of likeliest bytes to choose from; 0 stands for all. Among equally
  // likely bytes at the limit, the bytes with the smaller values are kept.
  int64_t top_k = 0;
  // Seed of the random choices. The same seed, weights, prompt and options
  // yield the same text.
  uint64_t seed = 1;
};

// Draws a token from the distribution that `logits` describes, using `uniform`,
// a number in [0, 1). Returns the token's index in `logits`. A pure function,
// computed in float64. Of `options`, uses only temperature and top_k. Returns
// InvalidArgument if a logit is not finite, which indicates damaged weights.
absl::StatusOr<int> DrawToken(absl::Span<const float> logits,
                              const GenerateOptions& options, double uniform);

// Generates the bytes that follow `prompt`; the result does not include
// `prompt`. An empty prompt stands for the start of a line. `model` must have
// been created for text. `weights` is an arena in the memory of the model's
// device. Neither `model` nor `weights` is used after the call. Returns
// InvalidArgument for invalid options, and the errors of
// Model::NextTokenLogits.
absl::StatusOr<std::string> GenerateText(Model* model, const float* weights,
                                         absl::string_view prompt,
                                         const GenerateOptions& options);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_GENERATE_H_

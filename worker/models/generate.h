// Text from a trained language model, byte by byte.
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
  // How many bytes to make.
  int64_t bytes = 200;
  // Logits are divided by this before the softmax. 0: always the likeliest
  // byte. Below 1 the text is more usual, above 1 more surprising.
  double temperature = 0.8;
  // Only so many of the likeliest bytes may come; 0: all. Of equal logits at
  // the limit, the smaller bytes stay.
  int64_t top_k = 0;
  // The same seed, weights and prompt give the same text.
  uint64_t seed = 1;
};

// Draws one of logits.size() outcomes; `uniform` in [0, 1) decides which. A
// pure function, computed in float64. Uses temperature and top_k only.
// InvalidArgument if a logit is not finite: the weights are damaged.
absl::StatusOr<int> DrawToken(absl::Span<const float> logits,
                              const GenerateOptions& options, double uniform);

// The bytes that follow `prompt`, without it. An empty prompt stands for the
// start of a line. `model` must have been created for text, and `weights` is an
// arena of its device; both are only used during the call. InvalidArgument for
// options that make no sense, Unimplemented for models that are not gpt.
absl::StatusOr<std::string> GenerateText(Model* model, const float* weights,
                                         absl::string_view prompt,
                                         const GenerateOptions& options);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_GENERATE_H_

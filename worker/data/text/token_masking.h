// Choice of the tokens that a masked language model predicts.
#ifndef TRIBUTARY_WORKER_DATA_TEXT_TOKEN_MASKING_H_
#define TRIBUTARY_WORKER_DATA_TEXT_TOKEN_MASKING_H_

#include <cstdint>

#include "absl/types/span.h"
#include "worker/data/text/sequence_tokens.h"

namespace tributary {

// Masks tokens as BERT does (Devlin et al., 2019). Each token that is not
// special is selected for prediction with a fixed probability. A selected token
// is replaced by [MASK] in 80 % of the cases and by a random token of the
// vocabulary in 10 %; otherwise, it is not changed.
//
// At least one token of each sample is selected: if none is selected at random,
// the token with the smallest random number is. If all tokens of a sample are
// special, they are treated like other tokens.
//
// The result is a pure function of the seed, the epoch, the index of the sample
// and the tokens. proto/SAMPLING.md defines it. Immutable and therefore
// thread-safe.
class TokenMasking {
 public:
  struct Options {
    uint64_t seed = 0;
    double probability = 0.15;
    SequenceTokens special;
    int64_t vocabulary = 0;  // Number of tokens to draw replacements from.
  };
  // The value of `epoch` that stands for held-out samples.
  static constexpr int64_t kEvaluation = -1;

  explicit TokenMasking(const Options& options) : options_(options) {}

  // Replaces the tokens of sample `index` that are to be predicted, and sets
  // the label of each token: the token before the change, or -1 if it is not to
  // be predicted. `tokens` has 1 to 65,536 elements, and `labels` has as many.
  void Mask(int64_t epoch, int64_t index, absl::Span<int32_t> tokens,
            int32_t* labels) const;

 private:
  const Options options_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_TEXT_TOKEN_MASKING_H_

// The special tokens of BERT's samples.
#ifndef TRIBUTARY_WORKER_DATA_TEXT_SEQUENCE_TOKENS_H_
#define TRIBUTARY_WORKER_DATA_TEXT_SEQUENCE_TOKENS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/tokenizer/tokenizer.h"

namespace tributary {

// Ids of special tokens; kAbsent if the vocabulary does not have the token.
struct SequenceTokens {
  static constexpr int32_t kAbsent = -1;

  int32_t classification = kAbsent;
  int32_t separator = kAbsent;
  int32_t mask = kAbsent;
  int32_t padding = kAbsent;
  int32_t unknown = kAbsent;

  // Returns true if `token` is one of the special tokens.
  bool Contains(int32_t token) const;
  // Returns the token with which samples are filled up to the context length:
  // the padding token or, if there is none, token 0. The choice does not affect
  // what the model computes for a sample.
  int32_t filler() const { return padding == kAbsent ? 0 : padding; }
};

// Returns the special tokens of the tokenizer that the job's field `field`
// names. Returns InvalidArgument if the vocabulary has no [CLS] or no [SEP] or,
// if `needs_mask`, no [MASK].
absl::StatusOr<SequenceTokens> FindSequenceTokens(const Tokenizer& tokenizer,
                                                  const std::string& field,
                                                  bool needs_mask);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_TEXT_SEQUENCE_TOKENS_H_

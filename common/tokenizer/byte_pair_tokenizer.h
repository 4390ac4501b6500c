// The tokenizer of GPT-2: byte-level byte-pair encoding (Radford et al., 2019).
#ifndef TRIBUTARY_COMMON_TOKENIZER_BYTE_PAIR_TOKENIZER_H_
#define TRIBUTARY_COMMON_TOKENIZER_BYTE_PAIR_TOKENIZER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/tokenizer/tokenizer.h"

namespace tributary {

// The vocabulary and the merges of a byte-level BPE tokenizer.
struct BytePairModel {
  // The bytes of each token, indexed by id. Empty for an id that no token has.
  // The bytes of a special token are its name.
  std::vector<std::string> tokens;
  // The ids of the special tokens. Encode never returns these ids.
  absl::flat_hash_set<int32_t> special;
  // Pairs of tokens that are merged, those with the highest priority first. The
  // bytes of the two tokens, concatenated, must be the bytes of a token.
  std::vector<std::pair<int32_t, int32_t>> merges;
  // If true, a word whose bytes are those of a token becomes that token, even
  // if the merges would produce other tokens.
  bool whole_words_first = false;
};

// Divides a text into words (see gpt2_pattern.h) and encodes each word: starts
// with one token per byte, and repeatedly merges the neighboring pair with the
// highest priority. A word of n bytes takes O(n log n) time. Encode accepts any
// bytes, and Decode(Encode(text)) is `text`. Immutable and therefore
// thread-safe.
class BytePairTokenizer final : public Tokenizer {
 public:
  // Returns InvalidArgument if one of the 256 bytes is not a token, if two
  // tokens have the same bytes, or if a merge does not produce a token.
  static absl::StatusOr<std::unique_ptr<BytePairTokenizer>> Create(
      BytePairModel model);

  int64_t vocabulary() const override {
    return static_cast<int64_t>(tokens_.size());
  }
  absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text) const override;
  absl::StatusOr<std::string> Decode(
      absl::Span<const int32_t> ids) const override;
  absl::optional<int32_t> Special(SpecialToken token) const override;

 private:
  struct Merge {
    int32_t rank;
    int32_t id;
  };
  // Temporary memory for encoding, which is reused for each word of a text.
  struct Scratch;

  BytePairTokenizer() = default;
  const Merge* FindMerge(int32_t left, int32_t right) const;
  // Appends the ids of the tokens of `word` to `*ids`.
  void AppendWord(absl::string_view word, Scratch* scratch,
                  std::vector<int32_t>* ids) const;
  void AppendMerged(absl::string_view word, Scratch* scratch,
                    std::vector<int32_t>* ids) const;

  std::vector<std::string> tokens_;
  absl::flat_hash_map<uint64_t, Merge> merges_;  // Key: left << 32 | right.
  std::array<int32_t, 256> bytes_;               // The id of each byte.
  // Maps each word that is encoded as a single token to the id of the token.
  absl::flat_hash_map<std::string, int32_t> words_;
  absl::flat_hash_map<std::string, int32_t> special_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TOKENIZER_BYTE_PAIR_TOKENIZER_H_

// Byte-level byte-pair encoding (Radford et al., 2019), as GPT-2 uses it.
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

// The content of the files of a byte-level BPE tokenizer.
struct BytePairModel {
  // The bytes of each token. Empty for an id that no token has. A special
  // token's bytes are its name.
  std::vector<std::string> tokens;
  // The ids of the special tokens. No text is encoded to these.
  absl::flat_hash_set<int32_t> special;
  // Pairs of tokens that are merged, in the order of their priority. The bytes
  // of both, one after the other, must be those of a token.
  std::vector<std::pair<int32_t, int32_t>> merges;
  // True: a word that is a token becomes that token, even if the merges do not
  // lead to it.
  bool whole_words_first = false;
};

// Divides a text into words (see gpt2_pattern.h), and merges the bytes of each
// word, beginning with the pair that has the highest priority. A word of n
// bytes takes O(n log n) time. Encode accepts any bytes, and
// Decode(Encode(text)) is `text`. Immutable and therefore thread-safe.
class BytePairTokenizer final : public Tokenizer {
 public:
  // Returns InvalidArgument if one of the 256 bytes is not a token, or a merge
  // is invalid.
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
  // Memory for the merging of one word, which each word reuses.
  struct Scratch;

  BytePairTokenizer() = default;
  const Merge* FindMerge(int32_t left, int32_t right) const;
  // Appends the ids of the word.
  void AppendWord(absl::string_view word, Scratch* scratch,
                  std::vector<int32_t>* ids) const;
  void AppendMerged(absl::string_view word, Scratch* scratch,
                    std::vector<int32_t>* ids) const;

  std::vector<std::string> tokens_;
  absl::flat_hash_map<uint64_t, Merge> merges_;  // By left << 32 | right.
  std::array<int32_t, 256> bytes_;               // The id of each byte.
  // Words that become a single token.
  absl::flat_hash_map<std::string, int32_t> words_;
  absl::flat_hash_map<std::string, int32_t> special_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TOKENIZER_BYTE_PAIR_TOKENIZER_H_

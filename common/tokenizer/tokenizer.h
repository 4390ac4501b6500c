// Interface for tokenizers, which convert between text and token ids.
#ifndef TRIBUTARY_COMMON_TOKENIZER_TOKENIZER_H_
#define TRIBUTARY_COMMON_TOKENIZER_TOKENIZER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

namespace tributary {

// Tokens that do not represent text.
enum class SpecialToken {
  kUnknown,         // [UNK]: a word that the vocabulary cannot represent
  kPadding,         // [PAD]
  kClassification,  // [CLS]: the beginning of a sample of BERT
  kSeparator,       // [SEP]: the end of a text in a sample of BERT
  kMask,            // [MASK]: a token to predict
  kEndOfText,       // <|endoftext|>: between two documents of GPT
};

// Converts text to token ids and back. Immutable and therefore thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Returns the number of ids: the largest id plus one.
  virtual int64_t vocabulary() const = 0;
  // Returns the ids of the tokens of `text`, which may contain any bytes. Adds
  // no special tokens, and treats the name of a special token like any other
  // text. Returns InvalidArgument if the text is longer than 2^31 - 1 bytes.
  virtual absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text) const = 0;
  // Returns the text of the tokens `ids`. A special token becomes its name,
  // such as `[SEP]`. Returns InvalidArgument for an id that no token has.
  virtual absl::StatusOr<std::string> Decode(
      absl::Span<const int32_t> ids) const = 0;
  // Returns the id of a special token, or nullopt if the vocabulary does not
  // have it.
  virtual absl::optional<int32_t> Special(SpecialToken token) const = 0;
  // Returns the tokenizer in the format of Hugging Face's tokenizer.json, which
  // ParseTokenizerJson reads. Returns an empty string for kinds of tokenizers
  // that do not support this format; only WordPiece does.
  virtual std::string ToJson() const { return ""; }
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TOKENIZER_TOKENIZER_H_

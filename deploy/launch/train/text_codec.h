// Conversion between text and the tokens of a language model.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_TRAIN_TEXT_CODEC_H_
#define TRIBUTARY_DEPLOY_LAUNCH_TRAIN_TEXT_CODEC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/tokenizer/tokenizer.h"

namespace tributary {

// Converts text to the tokens of a language model and back. Thread-safe.
class TextCodec {
 public:
  virtual ~TextCodec() = default;

  // Returns the tokens of `text`, and the errors of Tokenizer::Encode.
  virtual absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text) const = 0;
  // Returns the bytes that `token` stands for. They may begin or end within a
  // character of UTF-8. Returns an empty string if the vocabulary has no such
  // token.
  virtual std::string BytesOf(int32_t token) const = 0;
  // Returns the number of tokens in the vocabulary.
  virtual int64_t vocabulary() const = 0;
  // Returns the token that separates texts, or nullopt if there is none.
  virtual absl::optional<int32_t> end_of_text() const = 0;
  // Returns true if texts must be valid UTF-8, and false if they may contain
  // any bytes.
  virtual bool is_unicode() const = 0;
};

// Returns a codec with 256 tokens. Each token is one byte, and its id is the
// value of the byte.
std::unique_ptr<TextCodec> ByteCodec();

// Returns a codec for the tokens of a tokenizer.
std::unique_ptr<TextCodec> TokenizerCodec(std::unique_ptr<Tokenizer> tokenizer);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_TRAIN_TEXT_CODEC_H_

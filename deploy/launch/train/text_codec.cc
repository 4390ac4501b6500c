#include "deploy/launch/train/text_codec.h"

#include <utility>

namespace tributary {
namespace {

constexpr int64_t kByteValues = 256;

class Bytes final : public TextCodec {
 public:
  absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text) const override {
    std::vector<int32_t> tokens;
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  std::string BytesOf(int32_t token) const override {
    return std::string(1, static_cast<char>(token));
  }
  int64_t vocabulary() const override { return kByteValues; }
  absl::optional<int32_t> end_of_text() const override { return absl::nullopt; }
  bool is_unicode() const override { return false; }
};

class Tokens final : public TextCodec {
 public:
  explicit Tokens(std::unique_ptr<Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)) {}

  absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text) const override {
    return tokenizer_->Encode(text);
  }
  // A model may have more tokens than its tokenizer, which it never learns.
  std::string BytesOf(int32_t token) const override {
    return tokenizer_->Decode({token}).value_or("");
  }
  int64_t vocabulary() const override { return tokenizer_->vocabulary(); }
  absl::optional<int32_t> end_of_text() const override {
    return tokenizer_->Special(SpecialToken::kEndOfText);
  }
  bool is_unicode() const override { return true; }

 private:
  const std::unique_ptr<Tokenizer> tokenizer_;
};

}  // namespace

std::unique_ptr<TextCodec> TokenizerCodec(
    std::unique_ptr<Tokenizer> tokenizer) {
  return std::make_unique<Tokens>(std::move(tokenizer));
}

std::unique_ptr<TextCodec> ByteCodec() { return std::make_unique<Bytes>(); }

}  // namespace tributary

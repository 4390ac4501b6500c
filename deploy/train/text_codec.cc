#include "deploy/train/text_codec.h"

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

}  // namespace

std::unique_ptr<TextCodec> ByteCodec() { return std::make_unique<Bytes>(); }

}  // namespace tributary

#include "common/tokenizer/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "common/tokenizer/unicode.h"

namespace tributary {
namespace {

constexpr int32_t kNoByte = -1;
constexpr int32_t kFirstOther = 0x100;
constexpr int32_t kOthers = 68;

constexpr bool IsItself(int32_t byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) ||
         (byte >= 174 && byte <= 255);
}

// Returns the byte of each code point.
std::array<int32_t, kFirstOther + kOthers> MakeAlphabet() {
  std::array<int32_t, kFirstOther + kOthers> bytes;
  bytes.fill(kNoByte);
  int32_t other = kFirstOther;
  for (int32_t byte = 0; byte < 256; ++byte) {
    bytes[static_cast<size_t>(IsItself(byte) ? byte : other++)] = byte;
  }
  return bytes;
}

}  // namespace

absl::optional<std::string> BytesOfToken(absl::string_view token) {
  static const auto alphabet = MakeAlphabet();
  std::string bytes;
  while (!token.empty()) {
    const Character next = FirstCharacter(token);
    if (next.point < 0 || next.point >= kFirstOther + kOthers) {
      return absl::nullopt;
    }
    const int32_t byte = alphabet[static_cast<size_t>(next.point)];
    if (byte == kNoByte) return absl::nullopt;
    bytes.push_back(static_cast<char>(byte));
    token.remove_prefix(next.bytes);
  }
  return bytes;
}

}  // namespace tributary

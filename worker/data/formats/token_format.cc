#include "worker/data/formats/token_format.h"

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "worker/data/files/file_magic.h"
#include "worker/data/formats/npy_format.h"

namespace tributary {
namespace {

constexpr int64_t kLlmCHeaderBytes = 1024;
constexpr int32_t kLlmCMagic16 = 20240520;
constexpr int32_t kLlmCVersion16 = 1;
constexpr int32_t kLlmCMagic32 = 20240801;
constexpr int32_t kLlmCVersion32 = 7;

template <typename Number>
Number NumberAt(absl::string_view bytes, int64_t offset) {
  Number number;
  std::memcpy(&number, bytes.data() + offset, sizeof(number));
  return number;
}

template <typename... What>
absl::Status WrongTokens(const std::string& path, const What&... what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what...));
}

bool HasLlmCMagic(absl::string_view bytes) {
  if (static_cast<int64_t>(bytes.size()) < 4) return false;
  const int32_t magic = NumberAt<int32_t>(bytes, 0);
  return magic == kLlmCMagic16 || magic == kLlmCMagic32;
}

absl::StatusOr<TokenFormat> ParseLlmC(absl::string_view bytes, int64_t size,
                                      const std::string& path) {
  if (!HasLlmCMagic(bytes)) {
    return WrongTokens(path,
                       "byte 0: expected the magic number of llm.c's token ",
                       "files, ", kLlmCMagic16, " or ", kLlmCMagic32);
  }
  if (size < kLlmCHeaderBytes) {
    return WrongTokens(path, size, " bytes are too few for the header of ",
                       kLlmCHeaderBytes, " bytes");
  }
  const bool wide = NumberAt<int32_t>(bytes, 0) == kLlmCMagic32;
  const int32_t version = NumberAt<int32_t>(bytes, 4);
  const int32_t expected = wide ? kLlmCVersion32 : kLlmCVersion16;
  if (version != expected) {
    return WrongTokens(path, "byte 4: version ", version, ", expected ",
                       expected);
  }
  TokenFormat format;
  format.begin = kLlmCHeaderBytes;
  format.token_bytes = wide ? 4 : 2;
  format.tokens = NumberAt<int32_t>(bytes, 8);
  if (format.tokens < 0 ||
      format.begin + format.tokens * format.token_bytes != size) {
    return WrongTokens(path, "byte 8: ", format.tokens,
                       " tokens, but there are ", size - format.begin,
                       " bytes after the header");
  }
  return format;
}

absl::StatusOr<TokenFormat> ParseHeaderless(int64_t size, int64_t token_bytes,
                                            const std::string& path) {
  if (size % token_bytes != 0) {
    return WrongTokens(path, size, " bytes are no multiple of ", token_bytes,
                       ", the bytes of a token; set data.tokens.format");
  }
  TokenFormat format;
  format.token_bytes = token_bytes;
  format.tokens = size / token_bytes;
  return format;
}

absl::StatusOr<TokenFormat> ParseNpy(absl::string_view bytes, int64_t size,
                                     const std::string& path) {
  TRIBUTARY_ASSIGN_OR_RETURN(const NpyHeader header,
                             ParseNpyHeader(bytes, path));
  if (header.integer_bytes == 0) {
    return WrongTokens(path, "the array has the type \"",
                       absl::CHexEscape(header.type),
                       "\", expected a little-endian integer such as <u2");
  }
  if (header.shape.size() != 1) {
    return WrongTokens(path, "the array has the shape (",
                       absl::StrJoin(header.shape, ", "),
                       "), expected one dimension");
  }
  TokenFormat format;
  format.begin = header.bytes;
  format.token_bytes = header.integer_bytes;
  format.is_signed = header.is_signed;
  format.tokens = header.shape[0];
  const int64_t left = size - format.begin;
  if (left % format.token_bytes != 0 ||
      left / format.token_bytes != format.tokens) {
    return WrongTokens(path, format.tokens, " tokens, but there are ", left,
                       " bytes after the header");
  }
  return format;
}

}  // namespace

absl::StatusOr<TokenFormat> ParseTokenFormat(absl::string_view start,
                                             int64_t size,
                                             TokensSpec::Format format,
                                             const std::string& path) {
  switch (format) {
    case TokensSpec::LLM_C:
      return ParseLlmC(start, size, path);
    case TokensSpec::NPY:
      return ParseNpy(start, size, path);
    case TokensSpec::UINT16:
      return ParseHeaderless(size, 2, path);
    case TokensSpec::UINT32:
      return ParseHeaderless(size, 4, path);
    default:
      break;
  }
  if (HasLlmCMagic(start)) return ParseLlmC(start, size, path);
  if (absl::StartsWith(start, kNpyMagic)) return ParseNpy(start, size, path);
  if (absl::StartsWith(start, kGzipMagic) ||
      absl::StartsWith(start, kZipMagic)) {
    return WrongTokens(path,
                       "is compressed; decompress it: token files are read ",
                       "at any offset");
  }
  return ParseHeaderless(size, 2, path);
}

int64_t TokenAt(absl::string_view tokens, const TokenFormat& format,
                int64_t index) {
  const int64_t at = index * format.token_bytes;
  switch (format.token_bytes) {
    case 1:
      return format.is_signed ? NumberAt<int8_t>(tokens, at)
                              : NumberAt<uint8_t>(tokens, at);
    case 2:
      return format.is_signed ? NumberAt<int16_t>(tokens, at)
                              : NumberAt<uint16_t>(tokens, at);
    case 4:
      return format.is_signed ? int64_t{NumberAt<int32_t>(tokens, at)}
                              : int64_t{NumberAt<uint32_t>(tokens, at)};
    default:
      // Of unsigned numbers, those above 2^63 - 1 become negative.
      return NumberAt<int64_t>(tokens, at);
  }
}

}  // namespace tributary

// Formats of files of token ids.
#ifndef TRIBUTARY_WORKER_DATA_FORMATS_TOKEN_FORMAT_H_
#define TRIBUTARY_WORKER_DATA_FORMATS_TOKEN_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace tributary {

// The position, number and type of the tokens in a file. Tokens are
// little-endian integers.
struct TokenFormat {
  int64_t begin = 0;        // Offset of the first token, in bytes.
  int64_t token_bytes = 2;  // Bytes of a token: 1, 2, 4 or 8.
  bool is_signed = false;
  int64_t tokens = 0;
};

// Number of bytes at the beginning of a token file that ParseTokenFormat needs:
// more than the longest header that numpy.save writes.
inline constexpr int64_t kTokenHeaderBytes = 1 << 17;

// Parses the header of a token file. `start` contains the first
// kTokenHeaderBytes of the file, or the whole file if it is shorter. `size` is
// the size of the file in bytes, and `format` is the format that the job names.
// Accepts any bytes. Returns InvalidArgument if the file does not have this
// format or its size contradicts the header; the message begins with `path`.
absl::StatusOr<TokenFormat> ParseTokenFormat(absl::string_view start,
                                             int64_t size,
                                             TokensSpec::Format format,
                                             const std::string& path);

// Returns the token at `index` in `tokens`, which contains the bytes of
// consecutive tokens of a file. `index` must be in range.
int64_t TokenAt(absl::string_view tokens, const TokenFormat& format,
                int64_t index);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_FORMATS_TOKEN_FORMAT_H_

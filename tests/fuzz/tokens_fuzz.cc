// Files of token ids. Input: a byte that chooses the format, and the file.
#include <cstdint>

#include "absl/strings/string_view.h"
#include "proto/job.pb.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker/data/formats/token_format.h"

namespace tributary {
namespace {

void Run(absl::string_view bytes, uint8_t choice) {
  const auto format = ParseTokenFormat(
      bytes.substr(0, kTokenHeaderBytes), static_cast<int64_t>(bytes.size()),
      static_cast<TokensSpec::Format>(choice % 6), "file");
  if (!format.ok()) return;
  TRIBUTARY_FUZZ_CHECK(format->begin >= 0 && format->tokens >= 0);
  TRIBUTARY_FUZZ_CHECK(format->begin + format->tokens * format->token_bytes ==
                       static_cast<int64_t>(bytes.size()));
  // Reads within the file, which AddressSanitizer checks.
  const absl::string_view tokens =
      bytes.substr(static_cast<size_t>(format->begin));
  int64_t sum = 0;
  for (int64_t i = 0; i < format->tokens; ++i) {
    sum ^= TokenAt(tokens, *format, i);
  }
  [[maybe_unused]] static volatile int64_t kept;
  kept = sum;
}

}  // namespace
}  // namespace tributary

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  tributary::Run({reinterpret_cast<const char*>(data) + 1, size - 1}, data[0]);
  return 0;
}

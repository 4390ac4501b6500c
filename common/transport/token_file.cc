#include "common/transport/token_file.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"

namespace tributary {
namespace {

// A shorter token can be guessed. A longer one does not fit in a call's
// metadata.
constexpr size_t kMinTokenBytes = 16;
constexpr size_t kMaxTokenBytes = 1024;

bool IsToken(absl::string_view text) {
  return text.size() >= kMinTokenBytes && text.size() <= kMaxTokenBytes &&
         std::all_of(text.begin(), text.end(), absl::ascii_isgraph);
}

absl::StatusOr<std::vector<std::string>> ReadTokens(const std::string& path) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::string text,
      ReadFile(path, 2 * TokenFile::kMostTokens * kMaxTokenBytes));
  std::vector<std::string> tokens;
  bool usable = true;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) continue;
    usable = usable && IsToken(line);
    tokens.emplace_back(line);
  }
  if (!usable || tokens.empty() || tokens.size() > TokenFile::kMostTokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--token-file ", path, " must hold one line of ", kMinTokenBytes,
        " to ", kMaxTokenBytes, " printable characters without spaces, or up ",
        "to ", TokenFile::kMostTokens,
        " such lines while the token is replaced; create one with: openssl "
        "rand -hex 32"));
  }
  return tokens;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const TokenFile>> TokenFile::Open(
    const std::string& path) {
  TRIBUTARY_ASSIGN_OR_RETURN(std::vector<std::string> tokens, ReadTokens(path));
  return std::shared_ptr<const TokenFile>(
      new TokenFile(path, std::move(tokens)));
}

TokenFile::TokenFile(const std::string& path, std::vector<std::string> tokens)
    : path_(path),
      tokens_(std::move(tokens)),
      pulse_(kReloadInterval, [this] { Reload(); }) {}

std::vector<std::string> TokenFile::tokens() const {
  absl::MutexLock lock(&mu_);
  return tokens_;
}

void TokenFile::Reload() {
  absl::StatusOr<std::vector<std::string>> tokens = ReadTokens(path_);
  if (!tokens.ok()) return;
  absl::MutexLock lock(&mu_);
  tokens_ = *std::move(tokens);
}

}  // namespace tributary

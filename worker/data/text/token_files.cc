#include "worker/data/text/token_files.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/text/counted.h"
#include "worker/data/files/data_fingerprint.h"
#include "worker/data/files/random_access_file.h"
#include "worker/data/formats/token_format.h"

namespace tributary {
namespace {

// Tokens that are checked together when a file is opened.
constexpr int64_t kPieceTokens = 1 << 18;

class TokenFiles final : public TokenSource {
 public:
  explicit TokenFiles(TextModel model) : model_(std::move(model)) {}

  // Opens the next file, and checks all of its tokens.
  absl::Status Add(const std::string& path, TokensSpec::Format named) {
    File file;
    TRIBUTARY_ASSIGN_OR_RETURN(file.file, RandomAccessFile::Open(path));
    const int64_t size = file.file->size();
    if (size == 0) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": is empty"));
    }
    std::string start;
    TRIBUTARY_RETURN_IF_ERROR(
        file.file->Read(0, std::min(size, kTokenHeaderBytes), &start));
    TRIBUTARY_ASSIGN_OR_RETURN(file.format,
                               ParseTokenFormat(start, size, named, path));
    hasher_.BeginFile(size);
    hasher_.Append(absl::string_view(start).substr(
        0, static_cast<size_t>(file.format.begin)));
    std::string bytes;
    std::vector<int32_t> tokens(kPieceTokens);
    for (int64_t first = 0; first < file.format.tokens; first += kPieceTokens) {
      const int64_t count = std::min(kPieceTokens, file.format.tokens - first);
      TRIBUTARY_RETURN_IF_ERROR(
          Read(file, first, count, &bytes, tokens.data()));
      hasher_.Append(bytes);
    }
    size_ += file.format.tokens;
    file.end = size_;
    files_.push_back(std::move(file));
    return absl::OkStatus();
  }

  int64_t size() const override { return size_; }

  absl::Status Copy(int64_t begin, int64_t count, int32_t* to) const override {
    auto file = std::upper_bound(
        files_.begin(), files_.end(), begin,
        [](int64_t token, const File& f) { return token < f.end; });
    std::string bytes;
    while (count > 0) {
      const int64_t first = begin - (file->end - file->format.tokens);
      const int64_t here = std::min(count, file->end - begin);
      TRIBUTARY_RETURN_IF_ERROR(Read(*file, first, here, &bytes, to));
      to += here;
      begin += here;
      count -= here;
      ++file;
    }
    return absl::OkStatus();
  }

  // Returns the fingerprint of the files' contents.
  uint64_t Fingerprint() const { return hasher_.Fingerprint(); }

 private:
  struct File {
    std::unique_ptr<RandomAccessFile> file;
    TokenFormat format;
    int64_t end = 0;  // The index after its last token, over all files.
  };

  // Reads the tokens [first, first + count) of the file and checks them.
  // `bytes` receives their bytes.
  absl::Status Read(const File& file, int64_t first, int64_t count,
                    std::string* bytes, int32_t* to) const {
    const TokenFormat& format = file.format;
    const int64_t offset = format.begin + first * format.token_bytes;
    TRIBUTARY_RETURN_IF_ERROR(
        file.file->Read(offset, count * format.token_bytes, bytes));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t token = TokenAt(*bytes, format, i);
      if (token < 0 || token >= model_.vocabulary) {
        return absl::InvalidArgumentError(absl::StrCat(
            file.file->path(), ": byte ", offset + i * format.token_bytes,
            ": token ", token, " is not below ", model_.field, ".vocabulary ",
            model_.vocabulary, "; set ", model_.field,
            ".vocabulary to the number of tokens of the tokenizer, or "
            "data.tokens.format to the format of the file"));
      }
      to[i] = static_cast<int32_t>(token);
    }
    return absl::OkStatus();
  }

  const TextModel model_;
  DataHasher hasher_;
  std::vector<File> files_;
  int64_t size_ = 0;
};

}  // namespace

absl::StatusOr<TokenData> OpenTokenFiles(const TokensSpec& spec,
                                         const TextModel& model) {
  if (spec.path().empty()) {
    return absl::InvalidArgumentError(
        "data.tokens.path: must name at least one file");
  }
  auto files = std::make_unique<TokenFiles>(model);
  for (const std::string& path : spec.path()) {
    TRIBUTARY_RETURN_IF_ERROR(files->Add(path, spec.format()));
  }
  TokenData data;
  data.train_tokens = files->size();
  for (const std::string& path : spec.validation_path()) {
    TRIBUTARY_RETURN_IF_ERROR(files->Add(path, spec.format()));
  }
  if (spec.validation_path().empty()) {
    data.train_tokens =
        static_cast<int64_t>(std::floor(static_cast<double>(data.train_tokens) *
                                        (1 - spec.validation_fraction())));
  }
  data.vocabulary = model.vocabulary;
  data.fingerprint = files->Fingerprint();
  data.too_short = absl::StrCat(
      "data.tokens: ", Counted(files->size(), "token is", "tokens are"),
      " too short: ");
  data.unit = " tokens";
  data.tokenizer_field = "data.tokens.tokenizer";
  data.tokens = std::move(files);
  return data;
}

}  // namespace tributary

#include "deploy/tools/tokenize/tokenize_files.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/base/thread_pool.h"
#include "common/os/file.h"
#include "common/os/file_system.h"
#include "common/tokenizer/gpt2_pattern.h"
#include "common/tokenizer/open_tokenizer.h"
#include "common/tokenizer/tokenizer.h"
#include "worker/data/files/data_file.h"

namespace tributary {
namespace {

// Large enough that the tokenizer's cache of words pays, small enough that all
// threads finish at about the same time.
constexpr size_t kPieceBytes = 1 << 20;
constexpr size_t kPiecesPerThread = 4;
constexpr int64_t kMaxUint16 = 65536;
constexpr size_t kLlmCHeaderBytes = 1024;
constexpr size_t kNpyHeaderBytes = 128;

// A new file of tokens under a temporary name, which Finish renames.
class TokenWriter {
 public:
  TokenWriter(std::string path, std::string format, bool wide)
      : path_(std::move(path)), format_(std::move(format)), wide_(wide) {
    const size_t slash = path_.rfind('/');
    const size_t name = slash == std::string::npos ? 0 : slash + 1;
    unfinished_ =
        absl::StrCat(path_.substr(0, name), UnfinishedName(path_.substr(name)));
  }
  ~TokenWriter() {
    if (file_ == nullptr) return;
    std::fclose(file_);
    std::remove(unfinished_.c_str());
  }

  absl::Status Open() {
    file_ = std::fopen(unfinished_.c_str(), "wbxe");
    if (file_ == nullptr) return FileError(errno, "cannot create", unfinished_);
    return Write(Header());
  }

  absl::Status Append(const std::vector<int32_t>& ids) {
    std::string bytes;
    const size_t size = wide_ ? 4 : 2;
    bytes.reserve(ids.size() * size);
    for (const int32_t id : ids) {
      for (size_t i = 0; i < size; ++i) {
        bytes.push_back(static_cast<char>(id >> (8 * i)));
      }
    }
    tokens_ += static_cast<int64_t>(ids.size());
    return Write(bytes);
  }

  absl::Status Finish() {
    if (format_ == "llm_c" && tokens_ > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path_, ": ", tokens_, " tokens; the header of llm.c can count ",
          std::numeric_limits<int32_t>::max(),
          "; use --format uint16, or write several files"));
    }
    if (std::fseek(file_, 0, SEEK_SET) != 0) return Failed();
    TRIBUTARY_RETURN_IF_ERROR(Write(Header()));
    if (std::fflush(file_) != 0 || fsync(fileno(file_)) != 0) return Failed();
    TRIBUTARY_RETURN_IF_ERROR(FileSystem::Posix()->Rename(unfinished_, path_));
    std::fclose(std::exchange(file_, nullptr));
    return FileSystem::Posix()->SyncFolder(FolderOf(path_));
  }

  int64_t tokens() const { return tokens_; }

 private:
  absl::Status Failed() const {
    return FileError(errno, "cannot write", unfinished_);
  }

  absl::Status Write(absl::string_view bytes) {
    if (std::fwrite(bytes.data(), 1, bytes.size(), file_) == bytes.size()) {
      return absl::OkStatus();
    }
    return Failed();
  }

  // Returns the header for the tokens so far.
  std::string Header() const {
    if (format_ == "llm_c") {
      std::string header(kLlmCHeaderBytes, '\0');
      const int32_t numbers[3] = {wide_ ? 20240801 : 20240520, wide_ ? 7 : 1,
                                  static_cast<int32_t>(tokens_)};
      std::memcpy(&header[0], numbers, sizeof(numbers));
      return header;
    }
    if (format_ != "npy") return "";
    std::string text =
        absl::StrCat("{'descr': '", wide_ ? "<u4" : "<u2",
                     "', 'fortran_order': False, 'shape': (", tokens_, ",), }");
    text.resize(kNpyHeaderBytes - 10 - 1, ' ');
    text.push_back('\n');
    std::string header("\x93NUMPY\x01\x00", 8);
    header.push_back(static_cast<char>(text.size()));
    header.push_back('\0');
    return header + text;
  }

  const std::string path_;
  const std::string format_;
  const bool wide_;
  std::string unfinished_;
  std::FILE* file_ = nullptr;
  int64_t tokens_ = 0;
};

// Encodes the pieces with several threads.
std::vector<absl::StatusOr<std::vector<int32_t>>> EncodeAll(
    const Tokenizer& tokenizer, const std::vector<absl::string_view>& pieces,
    int threads) {
  std::vector<absl::StatusOr<std::vector<int32_t>>> results(pieces.size());
  // Each result has its own status.
  ParallelFor(threads, static_cast<int64_t>(pieces.size()),
              [&](int, int64_t i) {
                results[i] = tokenizer.Encode(pieces[i]);
                return absl::OkStatus();
              })
      .IgnoreError();
  return results;
}

absl::Status TokenizeText(
    absl::string_view text, const Tokenizer& tokenizer, int threads,
    TokenWriter* writer, TokenizeProgress* done,
    const std::function<void(const TokenizeProgress&)>& progress) {
  while (!text.empty()) {
    std::vector<absl::string_view> pieces;
    const size_t count = kPiecesPerThread * static_cast<size_t>(threads);
    while (!text.empty() && pieces.size() < count) {
      const size_t bytes = SafeSplit(text, kPieceBytes);
      pieces.push_back(text.substr(0, bytes));
      text.remove_prefix(bytes);
      done->bytes += static_cast<int64_t>(bytes);
    }
    for (const auto& ids : EncodeAll(tokenizer, pieces, threads)) {
      if (!ids.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(done->file, ": ", ids.status().message()));
      }
      TRIBUTARY_RETURN_IF_ERROR(writer->Append(*ids));
    }
    done->tokens = writer->tokens();
    progress(*done);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> NeedsWide(const TokenizeOptions& options,
                               int64_t vocabulary) {
  if (options.format == "uint32") return true;
  const bool wide = vocabulary > kMaxUint16;
  if (wide && options.format == "uint16") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--format: uint16 cannot store the ids of the ", vocabulary,
        " tokens of ", options.tokenizer, "; use uint32 or llm_c"));
  }
  return wide;
}

}  // namespace

std::string TextSize(int64_t bytes) {
  if (bytes < 1000) {
    return absl::StrCat(bytes, bytes == 1 ? " byte" : " bytes");
  }
  const double kilobytes = static_cast<double>(bytes) / 1e3;
  return kilobytes < 999.95 ? absl::StrFormat("%.1f kB", kilobytes)
                            : absl::StrFormat("%.1f MB", kilobytes / 1e3);
}

absl::StatusOr<TokenizeProgress> TokenizeFiles(
    const TokenizeOptions& options,
    const std::function<void(const TokenizeProgress&)>& progress) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                             OpenTokenizer(options.tokenizer));
  TRIBUTARY_ASSIGN_OR_RETURN(const bool wide,
                             NeedsWide(options, tokenizer->vocabulary()));
  TokenWriter writer(options.output, options.format, wide);
  TRIBUTARY_RETURN_IF_ERROR(writer.Open());
  const absl::optional<int32_t> end =
      options.end_of_text ? tokenizer->Special(SpecialToken::kEndOfText)
                          : absl::nullopt;
  TokenizeProgress done;
  for (const std::string& path : options.files) {
    done.file = path;
    std::string text;
    TRIBUTARY_RETURN_IF_ERROR(AppendWholeFile(path, kMaxDataBytes, &text));
    TRIBUTARY_RETURN_IF_ERROR(TokenizeText(text, *tokenizer, options.threads,
                                           &writer, &done, progress));
    if (end.has_value()) TRIBUTARY_RETURN_IF_ERROR(writer.Append({*end}));
  }
  TRIBUTARY_RETURN_IF_ERROR(writer.Finish());
  done.tokens = writer.tokens();
  return done;
}

}  // namespace tributary

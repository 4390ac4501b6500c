#include "worker/data/text/token_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/text/counted.h"
#include "worker/data/files/data_fingerprint.h"
#include "worker/data/formats/token_format.h"

namespace tributary {
namespace {

absl::Status SystemError(const std::string& path, int error) {
  const std::string message =
      absl::StrCat(path, ": cannot open: ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(message);
  return absl::InvalidArgumentError(message);
}

// The contents of a file, mapped into memory. Movable.
class MappedFile {
 public:
  static absl::StatusOr<MappedFile> Open(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return SystemError(path, errno);
    struct stat information;
    absl::Status status;
    void* memory = nullptr;
    if (fstat(file, &information) != 0) {
      status = SystemError(path, errno);
    } else if (!S_ISREG(information.st_mode)) {
      status = absl::InvalidArgumentError(
          absl::StrCat(path, ": not a regular file"));
    } else if (information.st_size == 0) {
      status = absl::InvalidArgumentError(absl::StrCat(path, ": is empty"));
    } else {
      memory = mmap(nullptr, static_cast<size_t>(information.st_size),
                    PROT_READ, MAP_SHARED, file, 0);
      if (memory == MAP_FAILED) status = SystemError(path, errno);
    }
    close(file);
    TRIBUTARY_RETURN_IF_ERROR(status);
    return MappedFile({static_cast<const char*>(memory),
                       static_cast<size_t>(information.st_size)});
  }
  MappedFile(MappedFile&& other) noexcept
      : bytes_(std::exchange(other.bytes_, absl::string_view())) {}
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile() {
    if (bytes_.empty()) return;
    munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }

  absl::string_view bytes() const { return bytes_; }

 private:
  explicit MappedFile(absl::string_view bytes) : bytes_(bytes) {}
  absl::string_view bytes_;
};

class TokenFiles final : public TokenSource {
 public:
  absl::Status Add(const std::string& path, TokensSpec::Format named,
                   const TextModel& model) {
    TRIBUTARY_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
    TRIBUTARY_ASSIGN_OR_RETURN(const TokenFormat format,
                               ParseTokenFormat(file.bytes(), named, path));
    for (int64_t i = 0; i < format.tokens; ++i) {
      const int64_t token = TokenAt(file.bytes(), format, i);
      if (token >= 0 && token < model.vocabulary) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": byte ", format.begin + i * format.token_bytes, ": token ",
          token, " is not below ", model.field, ".vocabulary ",
          model.vocabulary, "; set ", model.field,
          ".vocabulary to the number of tokens of the tokenizer, or "
          "data.tokens.format to the format of the file"));
    }
    size_ += format.tokens;
    files_.push_back({std::move(file), format, size_});
    return absl::OkStatus();
  }

  int64_t size() const override { return size_; }

  void Copy(int64_t begin, int64_t count, int32_t* to) const override {
    auto file = std::upper_bound(
        files_.begin(), files_.end(), begin,
        [](int64_t token, const File& f) { return token < f.end; });
    while (count > 0) {
      const int64_t first = file->end - file->format.tokens;
      const int64_t here = std::min(count, file->end - begin);
      for (int64_t i = 0; i < here; ++i) {
        *to++ = static_cast<int32_t>(
            TokenAt(file->file.bytes(), file->format, begin - first + i));
      }
      begin += here;
      count -= here;
      ++file;
    }
  }

  uint64_t Fingerprint() const {
    std::vector<absl::string_view> contents;
    for (const File& file : files_) contents.push_back(file.file.bytes());
    return DataFingerprint(contents);
  }

 private:
  struct File {
    MappedFile file;
    TokenFormat format;
    int64_t end;  // The index after the file's last token, over all files.
  };
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
  auto files = std::make_unique<TokenFiles>();
  for (const std::string& path : spec.path()) {
    TRIBUTARY_RETURN_IF_ERROR(files->Add(path, spec.format(), model));
  }
  TokenData data;
  data.train_tokens = files->size();
  for (const std::string& path : spec.validation_path()) {
    TRIBUTARY_RETURN_IF_ERROR(files->Add(path, spec.format(), model));
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

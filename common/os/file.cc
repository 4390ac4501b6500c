#include "common/os/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <random>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"

namespace tributary {
namespace {

constexpr char kUnfinished[] = ".tmp-";
constexpr size_t kSuffixDigits = 16;

absl::Status WriteAndClose(WritableFile* file,
                           absl::Span<const absl::string_view> pieces) {
  for (const absl::string_view piece : pieces) {
    TRIBUTARY_RETURN_IF_ERROR(file->Append(piece));
  }
  TRIBUTARY_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace

bool PathExists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

bool IsFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

bool IsFile(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     int64_t max_bytes) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return FileError(errno, "cannot open", path);
  const absl::Cleanup closer = [file] { close(file); };
  std::string contents;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t count = read(file, buffer, sizeof(buffer));
    if (count == 0) return contents;
    if (count < 0) {
      if (errno == EINTR) continue;
      return FileError(errno, "cannot read", path);
    }
    contents.append(buffer, static_cast<size_t>(count));
    if (contents.size() > static_cast<uint64_t>(max_bytes)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": larger than ", max_bytes, " bytes"));
    }
  }
}

absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::string_view> pieces,
                                 FileSystem* files) {
  const std::string temporary = UnfinishedName(path);
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file,
                             files->Create(temporary));
  absl::Status status = WriteAndClose(file.get(), pieces);
  file.reset();
  if (status.ok()) status = files->Rename(temporary, path);
  if (!status.ok()) {
    // An error here adds nothing to the first one, which is returned.
    (void)files->Remove(temporary);
    return status;
  }
  return files->SyncFolder(FolderOf(path));
}

std::string UnfinishedName(absl::string_view whole) {
  return absl::StrCat(whole, kUnfinished, RandomSuffix());
}

bool IsUnfinished(absl::string_view name, absl::string_view whole) {
  return absl::ConsumePrefix(&name, whole) &&
         absl::ConsumePrefix(&name, kUnfinished) &&
         name.size() == kSuffixDigits &&
         std::all_of(name.begin(), name.end(), absl::ascii_isxdigit);
}

std::string RandomSuffix() {
  std::random_device random;
  return absl::StrCat(absl::Hex(random(), absl::kZeroPad8),
                      absl::Hex(random(), absl::kZeroPad8));
}

}  // namespace tributary

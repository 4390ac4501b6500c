#include "deploy/tools/tune/journal/study_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/os/file_system.h"
#include "deploy/tools/tune/journal/journal_lock.h"

namespace tributary {
namespace {

constexpr size_t kReadBytes = 1 << 20;

// Reads from `offset` to the end of the file.
absl::StatusOr<std::string> ReadFrom(int fd, int64_t offset,
                                     const std::string& path) {
  std::string text;
  while (true) {
    const size_t before = text.size();
    text.resize(before + kReadBytes);
    const ssize_t count = pread(fd, &text[before], kReadBytes,
                                offset + static_cast<int64_t>(before));
    if (count < 0 && errno == EINTR) {
      text.resize(before);
      continue;
    }
    if (count < 0) return FileError(errno, "cannot read", path);
    text.resize(before + static_cast<size_t>(count));
    if (count == 0) return text;
  }
}

absl::Status WriteAll(int fd, absl::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t count = write(fd, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError(errno, "cannot write", path);
    text.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

}  // namespace

StudyJournal::StudyJournal(
    std::string path, std::string study,
    std::function<absl::Status(const JournalEvent&)> on_event)
    : path_(std::move(path)),
      worker_(absl::StrCat("tributary-", RandomSuffix())),
      on_event_(std::move(on_event)),
      replay_(std::move(study)) {}

absl::Status StudyJournal::Read() {
  const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return absl::OkStatus();
  if (fd < 0) return FileError(errno, "cannot open", path_);
  const auto closer = absl::MakeCleanup([fd] { close(fd); });
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string text,
                             ReadFrom(fd, offset_, path_));
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos;
       end = text.find('\n', begin)) {
    const absl::string_view line(&text[begin], end - begin);
    ++line_;
    offset_ += static_cast<int64_t>(line.size()) + 1;
    begin = end + 1;
    std::vector<JournalEvent> events;
    const absl::Status applied = replay_.Apply(line, &events);
    if (!applied.ok()) {
      return absl::Status(applied.code(), absl::StrCat(path_, ":", line_, ": ",
                                                       applied.message()));
    }
    for (const JournalEvent& event : events) {
      if (on_event_ == nullptr) continue;
      TRIBUTARY_RETURN_IF_ERROR(on_event_(event));
    }
  }
  return absl::OkStatus();
}

absl::Status StudyJournal::Append(const std::vector<std::string>& lines) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<JournalLock> lock,
                             JournalLock::Acquire(path_));
  TRIBUTARY_RETURN_IF_ERROR(AppendLocked(lines));
  return Read();
}

absl::Status StudyJournal::AppendLocked(const std::vector<std::string>& lines) {
  const int64_t read = offset_;
  TRIBUTARY_RETURN_IF_ERROR(Read());
  if (offset_ != read) {
    return absl::AbortedError(
        absl::StrCat(path_, ": another process has written to it"));
  }
  const bool exists = PathExists(path_);
  const int fd = open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return FileError(errno, "cannot open", path_);
  const auto closer = absl::MakeCleanup([fd] { close(fd); });
  // Behind the last whole line.
  if (ftruncate(fd, offset_) != 0 || lseek(fd, offset_, SEEK_SET) < 0) {
    return FileError(errno, "cannot write", path_);
  }
  std::string text;
  for (const std::string& line : lines) absl::StrAppend(&text, line, "\n");
  TRIBUTARY_RETURN_IF_ERROR(WriteAll(fd, text, path_));
  if (fsync(fd) != 0) return FileError(errno, "cannot sync", path_);
  return exists ? absl::OkStatus()
                : FileSystem::Posix()->SyncFolder(FolderOf(path_));
}

}  // namespace tributary

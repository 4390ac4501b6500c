#include "deploy/tools/dashboard/records_copy.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <limits>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/os/file_system.h"

namespace tributary {
namespace {

// Coordinators send messages of at most 2000 bytes.
constexpr size_t kMaxEventBytes = 4096;

// Returns the descriptor of a new file without a name.
absl::StatusOr<int> CreateUnnamedFile() {
  const char* const folder = std::getenv("TMPDIR");
  std::string path = absl::StrCat(folder == nullptr ? "/tmp" : folder,
                                  "/tributary-dashboard-XXXXXX");
  const int file = mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) return FileError(errno, "cannot create", path);
  unlink(path.c_str());
  return file;
}

}  // namespace

RecordsCopy::RecordsCopy() {
  const absl::StatusOr<int> file = CreateUnnamedFile();
  created_ = file.status();
  if (!file.ok()) return;
  file_ = *file;
  path_ = absl::StrCat("/proc/self/fd/", file_);
}

RecordsCopy::~RecordsCopy() {
  if (file_ >= 0) close(file_);
}

absl::StatusOr<InputFile> RecordsCopy::OpenLines() const {
  TRIBUTARY_RETURN_IF_ERROR(created_);
  const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return FileError(errno, "cannot open", path_);
  return InputFile::Of(file, path_);
}

RecordsRequest RecordsCopy::NextRequest() const {
  RecordsRequest request;
  request.set_run_id(run_);
  request.set_generation(generation_);
  request.set_position(position_);
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  request.set_first_event(
      events_.empty() ? 0 : std::min(events_.back().id(), kMax - 1) + 1);
  return request;
}

absl::Status RecordsCopy::Apply(const RecordsReply& reply) {
  TRIBUTARY_RETURN_IF_ERROR(created_);
  if (reply.run_id() != run_) {
    TRIBUTARY_RETURN_IF_ERROR(Restart());
    run_ = reply.run_id();
    job_ = reply.job();
    events_.clear();
    generation_ = 0;
    position_ = 0;
  }
  for (const JobEvent& event : reply.event()) {
    if (!events_.empty() && event.id() <= events_.back().id()) continue;
    if (event.ByteSizeLong() > kMaxEventBytes) continue;
    events_.push_back(event);
    if (events_.size() > kKeptEvents) events_.pop_front();
  }
  if (reply.generation() == 0) {  // Lines are being removed from the original.
    return reply.more() ? absl::InvalidArgumentError(
                              "the coordinator sent no generation, and reports "
                              "that there are more lines")
                        : absl::OkStatus();
  }
  if (reply.generation() != generation_) {
    TRIBUTARY_RETURN_IF_ERROR(Restart());
    generation_ = reply.generation();
    position_ = 0;
  }
  const auto size = static_cast<int64_t>(reply.lines().size());
  if (reply.position() != position_ || reply.next_position() < position_ ||
      reply.next_position() - position_ < size ||
      (size > 0 && reply.lines().back() != '\n') ||
      (reply.more() && reply.next_position() == position_)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the coordinator sent ", size, " bytes of lines at position ",
        reply.position(), " up to ", reply.next_position(),
        " in reply to a request for position ", position_));
  }
  TRIBUTARY_RETURN_IF_ERROR(Append(reply.lines()));
  position_ = reply.next_position();
  return absl::OkStatus();
}

absl::Status RecordsCopy::Restart() {
  // A new file, so that a reader of the old one notices the change.
  TRIBUTARY_ASSIGN_OR_RETURN(const int file, CreateUnnamedFile());
  const absl::Cleanup close_file = [file] { close(file); };
  if (dup3(file, file_, O_CLOEXEC) < 0) {
    return FileError(errno, "cannot replace", path_);
  }
  bytes_ = 0;
  return absl::OkStatus();
}

absl::Status RecordsCopy::Append(const std::string& lines) {
  const auto size = static_cast<int64_t>(lines.size());
  if (bytes_ + size > kMaxBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the run's lines have more than ", kMaxBytes,
                     " bytes: open the dashboard where the run's folder is"));
  }
  int64_t written = 0;
  while (written < size) {
    const ssize_t count = pwrite(file_, lines.data() + written, size - written,
                                 static_cast<off_t>(bytes_ + written));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      // Apply writes the lines again, in the same place.
      return FileError(errno, "cannot write the temporary file", path_);
    }
    written += count;
  }
  bytes_ += size;
  return absl::OkStatus();
}

}  // namespace tributary

#include "tests/simulation/world/disk.h"

#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "common/base/status_macros.h"

namespace tributary::simulation {

class ProcessDisk::File final : public WritableFile {
 public:
  File(ProcessDisk* owner, std::unique_ptr<WritableFile> file, std::string path)
      : owner_(owner), file_(std::move(file)), path_(std::move(path)) {}

  absl::Status Append(absl::string_view bytes) override {
    const absl::Status status = owner_->Begin(path_);
    if (!status.ok()) {
      // Half of the data is written.
      if (!owner_->life_->gone()) {
        (void)file_->Append(bytes.substr(0, bytes.size() / 2));
      }
      return status;
    }
    return file_->Append(bytes);
  }
  absl::Status Sync() override {
    TRIBUTARY_RETURN_IF_ERROR(owner_->Begin(path_));
    return file_->Sync();
  }
  absl::Status Close() override {
    TRIBUTARY_RETURN_IF_ERROR(owner_->Begin(path_));
    return file_->Close();
  }

 private:
  ProcessDisk* const owner_;
  const std::unique_ptr<WritableFile> file_;
  const std::string path_;
};

absl::Status ProcessDisk::Begin(const std::string& path) {
  if (life_->silent()) return FileError(EIO, "the process is gone:", path);
  if (crash_after_ >= 0 && crash_after_-- == 0) {
    life_->root()->dying = true;
    return FileError(EIO, "the process crashes:", path);
  }
  if (!absl::StrContains(path, "/checkpoints")) return absl::OkStatus();
  if (fault_->operations_left > 0) --fault_->operations_left;
  if (fault_->operations_left != 0) return absl::OkStatus();
  if (loop_->now() >= fault_->until) fault_->operations_left = -1;
  return FileError(fault_->error_number, "cannot use", path);
}

absl::StatusOr<std::unique_ptr<WritableFile>> ProcessDisk::Create(
    const std::string& path) {
  TRIBUTARY_RETURN_IF_ERROR(Begin(path));
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file,
                             disk_->Create(path));
  return std::make_unique<File>(this, std::move(file), path);
}

absl::Status ProcessDisk::Rename(const std::string& from,
                                 const std::string& to) {
  TRIBUTARY_RETURN_IF_ERROR(Begin(from));
  TRIBUTARY_RETURN_IF_ERROR(disk_->Rename(from, to));
  renamed_(to);
  return absl::OkStatus();
}

absl::Status ProcessDisk::Link(const std::string& from, const std::string& to) {
  TRIBUTARY_RETURN_IF_ERROR(Begin(from));
  return disk_->Link(from, to);
}

absl::Status ProcessDisk::Exchange(const std::string& a, const std::string& b) {
  TRIBUTARY_RETURN_IF_ERROR(Begin(a));
  TRIBUTARY_RETURN_IF_ERROR(disk_->Exchange(a, b));
  renamed_(a);
  renamed_(b);
  return absl::OkStatus();
}

absl::Status ProcessDisk::SyncFolder(const std::string& path) {
  TRIBUTARY_RETURN_IF_ERROR(Begin(path));
  return disk_->SyncFolder(path);
}

absl::Status ProcessDisk::MakeFolder(const std::string& path) {
  TRIBUTARY_RETURN_IF_ERROR(Begin(path));
  return disk_->MakeFolder(path);
}

absl::Status ProcessDisk::Remove(const std::string& path) {
  TRIBUTARY_RETURN_IF_ERROR(Begin(path));
  return disk_->Remove(path);
}

}  // namespace tributary::simulation

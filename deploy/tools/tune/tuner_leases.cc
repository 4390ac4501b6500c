#include "deploy/tools/tune/tuner_leases.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/os/file_system.h"

namespace tributary {
namespace {

constexpr int kRenewalsInALease = 6;
constexpr int kReadsInALease = 12;
constexpr int64_t kMostLeaseBytes = 4096;

std::string MachineName() {
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) != 0) return "unknown";
  return name;
}

}  // namespace

TunerLeases::TunerLeases(std::string folder, std::string id,
                         absl::Duration lease)
    : folder_(std::move(folder)), id_(std::move(id)), lease_(lease) {}

absl::StatusOr<std::unique_ptr<TunerLeases>> TunerLeases::Join(
    const std::string& folder, absl::Duration lease) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return FileError(error.value(), "cannot create folder", folder);
  auto leases =
      absl::WrapUnique(new TunerLeases(folder, RandomSuffix(), lease));
  TRIBUTARY_RETURN_IF_ERROR(leases->Renew());
  leases->renewing_ =
      std::thread([leases = leases.get()] { leases->KeepRenewing(); });
  return leases;
}

TunerLeases::~TunerLeases() {
  {
    absl::MutexLock lock(&mu_);
    ending_ = true;
  }
  if (renewing_.joinable()) renewing_.join();
  unlink(PathOf(id_).c_str());
}

std::string TunerLeases::PathOf(const std::string& id) const {
  return absl::StrCat(folder_, "/", id);
}

absl::Status TunerLeases::Renew() {
  const std::string path = PathOf(id_);
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return FileError(errno, "cannot open", path);
  const auto closer = absl::MakeCleanup([fd] { close(fd); });
  // The number, which is all that others compare, only becomes longer.
  const std::string text = absl::StrCat(MachineName(), " process ", getpid(),
                                        " renewal ", ++renewals_, "\n");
  const ssize_t count = pwrite(fd, text.data(), text.size(), 0);
  if (count != static_cast<ssize_t>(text.size()) || fsync(fd) != 0) {
    return FileError(errno, "cannot write", path);
  }
  return absl::OkStatus();
}

void TunerLeases::KeepRenewing() {
  absl::MutexLock lock(&mu_);
  while (
      !AwaitFor(&mu_, absl::Condition(&ending_), lease_ / kRenewalsInALease)) {
    mu_.Unlock();
    // If it fails, the next one may succeed; otherwise, the lease ends.
    Renew().IgnoreError();
    mu_.Lock();
  }
}

bool TunerLeases::IsAlive(const std::string& id, absl::Time now) {
  if (id == id_) return true;
  Seen& seen =
      seen_.insert({id, {"", now, absl::InfinitePast()}}).first->second;
  if (now - seen.read_at >= lease_ / kReadsInALease) {
    seen.read_at = now;
    const absl::StatusOr<std::string> contents =
        ReadFile(PathOf(id), kMostLeaseBytes);
    if (contents.ok() && *contents != seen.contents) {
      seen.contents = *contents;
      seen.changed_at = now;
    }
  }
  return now - seen.changed_at < lease_;
}

}  // namespace tributary

#include "deploy/tools/tune/journal/journal_lock.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/os/file.h"
#include "common/os/file_system.h"

namespace tributary {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(1);
constexpr absl::Duration kLongestPause = absl::Milliseconds(100);

// Returns when the lock or the locked file was last changed.
absl::Time ChangeOf(const std::string& link) {
  absl::Time change = absl::InfinitePast();
  struct stat facts;
  if (lstat(link.c_str(), &facts) == 0) {
    change = std::max(change, absl::TimeFromTimespec(facts.st_mtim));
  }
  if (stat(link.c_str(), &facts) == 0) {
    change = std::max(change, absl::TimeFromTimespec(facts.st_mtim));
  }
  return change;
}

// Renames the link first, so that only one of several processes removes it.
void Remove(const std::string& link) {
  const std::string renamed = absl::StrCat(link, RandomSuffix(), ".rename");
  if (rename(link.c_str(), renamed.c_str()) == 0) unlink(renamed.c_str());
}

}  // namespace

absl::StatusOr<std::unique_ptr<JournalLock>> JournalLock::Acquire(
    const std::string& file, absl::Duration grace, absl::Duration timeout) {
  const std::string link = absl::StrCat(file, ".lock");
  // Relative to the folder of the link.
  const std::string target = file.substr(file.rfind('/') + 1);
  const absl::Time deadline = absl::Now() + timeout;
  absl::Time change = absl::InfinitePast();
  absl::Time changed_at = absl::Now();
  for (absl::Duration pause = kFirstPause;;
       pause = std::min(2 * pause, kLongestPause)) {
    if (symlink(target.c_str(), link.c_str()) == 0) {
      return absl::WrapUnique(new JournalLock(link));
    }
    if (errno != EEXIST) return FileError(errno, "cannot create", link);
    const absl::Time now = absl::Now();
    if (const absl::Time newest = ChangeOf(link); newest != change) {
      change = newest;
      changed_at = now;
    }
    if (now - changed_at > grace) {
      Remove(link);
      changed_at = now;
      continue;
    }
    if (now > deadline) {
      return absl::UnavailableError(absl::StrCat(
          link, " is held by another process; remove it if none uses ", file));
    }
    absl::SleepFor(pause);
  }
}

JournalLock::~JournalLock() { Remove(link_); }

}  // namespace tributary

#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_JOURNAL_JOURNAL_LOCK_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_JOURNAL_JOURNAL_LOCK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tributary {

// The lock of a journal file, compatible with Optuna's JournalFileSymlinkLock:
// the symbolic link FILE.lock exists while a process holds it. Works on network
// file systems. The destructor releases the lock.
class JournalLock {
 public:
  // Blocks until the lock is free. Takes it over if the file and the lock have
  // not changed for `grace`: its holder has died. Returns Unavailable after
  // `timeout`, and the system's error if the link cannot be created.
  static absl::StatusOr<std::unique_ptr<JournalLock>> Acquire(
      const std::string& file, absl::Duration grace = absl::Seconds(30),
      absl::Duration timeout = absl::Minutes(1));
  ~JournalLock();
  JournalLock(const JournalLock&) = delete;
  JournalLock& operator=(const JournalLock&) = delete;

 private:
  explicit JournalLock(std::string link) : link_(std::move(link)) {}

  const std::string link_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_JOURNAL_JOURNAL_LOCK_H_

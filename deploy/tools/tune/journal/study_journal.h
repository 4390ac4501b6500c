#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_JOURNAL_STUDY_JOURNAL_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_JOURNAL_STUDY_JOURNAL_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "deploy/tools/tune/journal/journal_replay.h"

namespace tributary {

// A journal file of Optuna (JournalFileBackend), which other processes,
// Tributary's or Optuna's, may read and append to at the same time. Writers
// hold the lock that Optuna uses by default: the symbolic link `PATH.lock`. A
// lock whose holder has died is taken over after half a minute.
//
// Changes of this process and of others are applied in the same way: Append
// writes lines, and then reads them. Not thread-safe. Methods block on the disk
// and on other writers, for at most a minute.
class StudyJournal {
 public:
  // `study` is as for JournalReplay. `on_event` is called for each event, in
  // the order of the file, after its line was applied. May be null.
  StudyJournal(std::string path, std::string study,
               std::function<absl::Status(const JournalEvent&)> on_event);

  // Reads the lines that were appended since the last call. A last line without
  // a line end is still being written, and not read. A file that does not exist
  // is empty. Returns DataLoss, naming the line, if a line is damaged, the
  // system's error, or that of on_event.
  absl::Status Read();
  // Appends lines, syncs the file and calls Read, while other writers wait: the
  // last changes are those of `lines`. The file is created if it does not
  // exist. If the last line was not written completely, because its writer has
  // died, removes it. Returns Aborted, without writing, if another process has
  // appended lines that this object had not read; it has read them then.
  absl::Status Append(const std::vector<std::string>& lines);

  const JournalReplay& replay() const { return replay_; }
  // Names this process in the lines that it writes.
  const std::string& worker() const { return worker_; }

 private:
  absl::Status AppendLocked(const std::vector<std::string>& lines);

  const std::string path_;
  const std::string worker_;
  const std::function<absl::Status(const JournalEvent&)> on_event_;
  JournalReplay replay_;
  int64_t offset_ = 0;  // Number of bytes that were read.
  int64_t line_ = 0;    // Number of lines that were read.
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_JOURNAL_STUDY_JOURNAL_H_

// The status of a job as text, for terminals.
#ifndef TRIBUTARY_DEPLOY_STATUS_STATUS_TEXT_H_
#define TRIBUTARY_DEPLOY_STATUS_STATUS_TEXT_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Returns the progress line, with the numbers of processes and the model.
std::string FormatStatus(const StatusReply& status);

// Returns up to `count` of the newest events in the status, oldest first, one
// line each. The lines contain what other processes have sent.
std::vector<std::string> FormatEvents(const StatusReply& status, int count);

// Formats a table of the processes of the job: also their memory and the time
// left of their leases, if they are known, and their releases, if they differ.
// Each line is preceded, not followed, by a newline. Returns an empty string if
// there are no processes.
std::string FormatProcesses(const StatusReply& status);

// Shows a status that changes, with its newest events below the processes. On a
// terminal, each status replaces the one before; elsewhere, a blank line
// precedes each further status.
class StatusScreen {
 public:
  // A terminal has `columns` and `rows`; both 0: not a terminal.
  StatusScreen(int columns, int rows) : columns_(columns), rows_(rows) {}

  // Returns what must be written to show the status, which is `age` old. On a
  // terminal, cuts lines that are too long, and processes for which there is no
  // room.
  std::string Show(const StatusReply& status, absl::Duration age);

 private:
  const int columns_;
  const int rows_;
  bool shown_ = false;
  int lines_ = 0;  // Lines of the status that is on the terminal.
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_STATUS_STATUS_TEXT_H_

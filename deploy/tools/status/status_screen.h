// The status of a job as text, for terminals.
#ifndef TRIBUTARY_DEPLOY_TOOLS_STATUS_STATUS_SCREEN_H_
#define TRIBUTARY_DEPLOY_TOOLS_STATUS_STATUS_SCREEN_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Returns one line: the progress of the job, how many workers and servers it
// has, and the model.
std::string FormatStatus(const StatusReply& status);

// Returns up to `count` of the newest events of the job in `status`, oldest
// first, one line each. The lines may contain control characters, because they
// contain text that other processes have sent.
std::vector<std::string> FormatEvents(const StatusReply& status, int count);

// Formats a table of the processes of the job, one line per process. The table
// includes the memory of processes and the time until their leases expire if
// these are known, and the releases of the processes if they differ. A newline
// precedes each line; none follows the last line. Returns an empty string if
// there are no processes.
std::string FormatProcesses(const StatusReply& status);

// Formats the status of a job again and again: the progress, the processes and
// below them the newest events. On a terminal, each status overwrites the
// previous one. In other outputs, a blank line separates one status from the
// next.
class StatusScreen {
 public:
  // `columns` and `rows` are the size of the terminal, or both 0 if the output
  // is not a terminal.
  StatusScreen(int columns, int rows) : columns_(columns), rows_(rows) {}

  // Returns the text that shows `status`, with control sequences for a
  // terminal. `status` was received `age` ago. On a terminal, shortens lines
  // that are too long, and omits processes for which there is no room.
  std::string Show(const StatusReply& status, absl::Duration age);

 private:
  const int columns_;
  const int rows_;
  bool shown_ = false;
  int lines_ = 0;  // Number of lines of the status on the terminal.
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_STATUS_STATUS_SCREEN_H_

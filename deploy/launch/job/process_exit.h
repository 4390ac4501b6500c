// How a process of a job has ended.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_JOB_PROCESS_EXIT_H_
#define TRIBUTARY_DEPLOY_LAUNCH_JOB_PROCESS_EXIT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace tributary {

struct ProcessExit {
  int process = -1;  // Number of the process, as returned by Start.
  // The status of the process at its end, as returned by waitpid.
  int wait_status = 0;
  // Describes how the process ended if `wait_status` does not; otherwise empty.
  // Messages append it to the process's name, as in "worker-3 REASON".
  std::string reason = {};
  // The error with which a thread of this process has ended (see
  // ProcessThreads); OK for all other processes.
  absl::Status status = {};

  bool succeeded() const;
  bool killed_by_signal() const;
  // Returns true if the process exited by itself with this code.
  bool exited_with(int code) const;
  // Returns true if the machine or a user ended the process by a signal, or if
  // a worker's device has failed.
  bool stopped() const;
  // Returns true if a worker cannot take part, for example because its machine
  // lacks the data, and starting it again would not help.
  bool refused() const;
  // Returns true if the process itself is the reason of its end. A process that
  // a different one has killed said nothing about it.
  bool crashed() const;

  // Describes how the process ended, as the end of a sentence that begins with
  // the process's name: `reason`; without it, the signal that killed the
  // process, the last error in its log, or its exit code. If the process has
  // crashed without an error in its log, adds the log's last line. The log of
  // the process begins at byte `begin` of the file `log_path`.
  std::string Describe(const std::string& log_path, int64_t begin) const;
};

// Describes how a process ended, for example as "exited with code 1" or "was
// killed by SIGTERM". `wait_status` is as returned by waitpid.
std::string DescribeExit(int wait_status);

// Searches a log, starting at byte `begin`, for the last line that starts with
// "error: ". Returns the line without this prefix, or an empty string if there
// is no such line near the end of the log.
std::string LastErrorIn(const std::string& log_path, int64_t begin = 0);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_JOB_PROCESS_EXIT_H_

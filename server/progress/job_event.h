// What happened to a job: an entry of events.jsonl.
#ifndef TRIBUTARY_SERVER_PROGRESS_JOB_EVENT_H_
#define TRIBUTARY_SERVER_PROGRESS_JOB_EVENT_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace tributary {

struct JobEvent {
  enum class Severity {
    kInfo,
    kWarning,  // The job continues, but needs attention.
    kError,    // The job has ended, or cannot continue.
  };

  int64_t step = 0;  // Number of steps completed when it happened.
  int64_t attempt = 0;
  Severity severity = Severity::kInfo;
  std::string kind;     // docs/metrics.md lists all kinds.
  std::string message;  // One line for the user.
  // The process that the event is about: "server" and its shard, or "worker"
  // and its rank. Empty and -1: none.
  std::string role;
  int number = -1;
};

// Returns the line of events.jsonl, without a line end. Bytes that are not
// UTF-8 are replaced, and a long message is cut.
std::string EventLine(const JobEvent& event, absl::Time time);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROGRESS_JOB_EVENT_H_

// A copy of what a run has recorded, made from the replies to GetRecords.
#ifndef TRIBUTARY_DEPLOY_DASHBOARD_RECORDS_COPY_H_
#define TRIBUTARY_DEPLOY_DASHBOARD_RECORDS_COPY_H_

#include <cstdint>
#include <deque>
#include <string>

#include "absl/status/status.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Keeps lines in a temporary file, which nobody else can open and which
// disappears with this process, and the newest events and the job in memory.
// Replies may contain anything. Not thread-safe, except path().
class RecordsCopy {
 public:
  // The number of newest events that are kept.
  static constexpr size_t kKeptEvents = 256;
  // The largest size of the temporary file.
  static constexpr int64_t kMaxBytes = int64_t{8} << 30;

  // Creates the file in $TMPDIR or, if that is not set, in /tmp. If this fails,
  // Apply returns the error.
  RecordsCopy();
  ~RecordsCopy();
  RecordsCopy(const RecordsCopy&) = delete;
  RecordsCopy& operator=(const RecordsCopy&) = delete;

  // Returns the request whose reply Apply expects.
  RecordsRequest NextRequest() const;

  // Adds a reply. A different run or generation replaces the lines: path() then
  // refers to a different file. Returns InvalidArgument if the reply is not one
  // to NextRequest(), ResourceExhausted beyond kMaxBytes, or the system's error
  // if the lines cannot be written, and then keeps the lines as they are.
  absl::Status Apply(const RecordsReply& reply);

  // The path under which this process can open the lines. Constant; empty if
  // the file could not be created. Thread-safe.
  const std::string& path() const { return path_; }
  // Oldest first.
  const std::deque<JobEvent>& events() const { return events_; }
  // The resolved job as text; empty until a reply contained it.
  const std::string& job() const { return job_; }

 private:
  // Replaces the file by an empty one.
  absl::Status Restart();
  absl::Status Append(const std::string& lines);

  absl::Status created_;
  int file_ = -1;
  std::string path_;
  int64_t bytes_ = 0;  // In the file.
  // As in the newest reply.
  std::string run_;
  int64_t generation_ = 0;
  int64_t position_ = 0;
  std::string job_;
  std::deque<JobEvent> events_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_DASHBOARD_RECORDS_COPY_H_

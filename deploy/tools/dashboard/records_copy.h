// A copy of what a run has recorded, made from the replies to GetRecords.
#ifndef TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_RECORDS_COPY_H_
#define TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_RECORDS_COPY_H_

#include <cstdint>
#include <deque>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/os/untrusted_folder.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// A copy of a run's records, which the run's coordinator sends: the lines of
// metrics.jsonl, the newest events and the job file. Keeps the lines in an
// unlinked temporary file, which the kernel removes when this process ends.
// Keeps the other records in memory. Checks the coordinator's replies, because
// the coordinator may be faulty. Not thread-safe, except OpenLines().
class RecordsCopy {
 public:
  // Maximum number of events that a copy keeps. Older events are dropped.
  static constexpr size_t kKeptEvents = 256;
  // Maximum size, in bytes, of the temporary file that holds the lines of
  // metrics.jsonl.
  static constexpr int64_t kMaxBytes = int64_t{8} << 30;

  // Creates the temporary file in $TMPDIR or, if that is not set, in /tmp. If
  // this fails, Apply returns the error.
  RecordsCopy();
  ~RecordsCopy();
  RecordsCopy(const RecordsCopy&) = delete;
  RecordsCopy& operator=(const RecordsCopy&) = delete;

  // Returns the request for the records that this copy does not have yet. Apply
  // expects the reply to this request.
  RecordsRequest NextRequest() const;

  // Adds the records of a reply. First removes the copied lines of
  // metrics.jsonl if the reply is about a different run, or if the run has
  // removed lines (see RecordsReply.generation): OpenLines() then opens a
  // different file. Returns InvalidArgument if the reply does not answer
  // NextRequest(), ResourceExhausted if the temporary file would exceed
  // kMaxBytes, or the system's error if the lines cannot be written. After an
  // error, does not add the lines of the reply.
  absl::Status Apply(const RecordsReply& reply);

  // Opens the copied lines of metrics.jsonl. Returns an error if the temporary
  // file could not be created. Thread-safe.
  absl::StatusOr<InputFile> OpenLines() const;
  // Returns the newest events of the run, oldest first.
  const std::deque<JobEvent>& events() const { return events_; }
  // Returns the text of the run's job, as ResolveJob returns it; an empty
  // string until a reply has contained it.
  const std::string& job() const { return job_; }

 private:
  // Replaces the temporary file with the copied lines by an empty one.
  absl::Status Restart();
  absl::Status Append(const std::string& lines);

  absl::Status created_;
  int file_ = -1;
  std::string path_;   // Of the temporary file in this process; never changes.
  int64_t bytes_ = 0;  // Size of the file.
  // The values run_id, generation and next_position of the newest RecordsReply.
  std::string run_;
  int64_t generation_ = 0;
  int64_t position_ = 0;
  std::string job_;
  std::deque<JobEvent> events_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_RECORDS_COPY_H_

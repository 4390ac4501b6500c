// trace.json: what the processes of a job did in the traced steps, in Chrome's
// trace event format, which Perfetto and chrome://tracing read.
#ifndef TRIBUTARY_SERVER_TRACE_TRACE_FILE_H_
#define TRIBUTARY_SERVER_TRACE_TRACE_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/os/file_system.h"
#include "proto/job.pb.h"
#include "server/trace/trace_collector.h"

namespace tributary {

// Assembles trace.json from the records of one or more attempts of a job (an
// attempt is one run of the protocol). Not thread-safe; Write blocks on the
// disk.
//
// Each process of the job is a process of the trace, and each track of a
// process is one or more rows ("threads" of the file format). Two spans share a
// row only if they are disjoint, or if one contains the other and they are not
// about different chunks. So spans that overlap otherwise, such as transfers,
// are on different rows. All times are on the coordinator's clock. `otherData`
// states the clock error of each process, and which records are missing.
class TraceFile {
 public:
  // `files` must outlive this object.
  TraceFile(const JobSpec& job, std::string directory, FileSystem* files);

  // Adds what `processes` have recorded in attempt number `attempt`. If a
  // process was added before, its new records are appended to the earlier
  // records.
  void Add(int64_t attempt, std::vector<TracedProcess> processes);
  // Returns true if Add has added records since the last Write.
  bool changed() const { return changed_; }

  // Returns the text of trace.json.
  std::string Text() const;
  // Writes trace.json into the directory, atomically.
  absl::Status Write();

 private:
  struct Process {
    int64_t attempt = 0;
    TracedProcess traced;
  };
  const TraceSpec spec_;
  const std::string path_;
  FileSystem* const files_;
  std::vector<Process> processes_;
  bool changed_ = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_TRACE_TRACE_FILE_H_

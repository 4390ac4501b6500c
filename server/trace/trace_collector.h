// Collects the trace records of a job's processes; see OutputSpec.trace.
#ifndef TRIBUTARY_SERVER_TRACE_TRACE_COLLECTOR_H_
#define TRIBUTARY_SERVER_TRACE_TRACE_COLLECTOR_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Identifies a process of an attempt.
struct TracedName {
  std::string role;  // "server" or "worker".
  int number = 0;    // Shard of a server, rank of a worker.
  // Incarnation of a worker; 0 for servers.
  int64_t incarnation = 0;
  bool operator<(const TracedName& other) const {
    return std::tie(role, number, incarnation) <
           std::tie(other.role, other.number, other.incarnation);
  }
};

// What one process has recorded so far.
struct TracedProcess {
  TracedName process;
  std::vector<std::string> names;
  std::vector<std::string> tracks;
  // `name` and `track` of each record are positions in the lists above, except
  // that arrows have no name.
  std::vector<TraceRecords::Record> records;
  // See TraceRecords.
  int64_t offset_ns = 0;
  int64_t offset_error_ns = 0;
  // Records that the process had no room for.
  int64_t dropped = 0;
  // Records that the collector had no room for.
  int64_t refused = 0;
  // True if the process has sent its last records.
  bool complete = false;
};

// Collects records, which are untrusted, up to limits. Records beyond a limit
// are dropped and counted. Not thread-safe; never blocks.
class TraceCollector {
 public:
  // Limits on each process, and on all records.
  static constexpr int kMostNames = 4096;
  static constexpr int kMostTracks = 256;
  static constexpr int kMostTextBytes = 256;
  static constexpr int64_t kMostRecords = int64_t{1} << 17;
  static constexpr int64_t kMostRecordsOfAll = int64_t{1} << 19;
  static constexpr int kMostProcesses = 2048;

  // Records that the process traces steps, so that its records are missed if
  // they do not arrive.
  void Expect(const TracedName& process);
  // Adds the records of a process. Returns InvalidArgument, with the value and
  // the expected value, for records that no correct process sends.
  absl::Status Add(const TracedName& process, const TraceRecords& records);

  // Returns true if there are records, and every expected process that is not
  // lost has sent its last ones.
  bool complete() const;
  // Records that the process has left: its missing records will not arrive.
  void Lose(const TracedName& process);

  // Returns all processes, and forgets them.
  std::vector<TracedProcess> Take();

 private:
  struct Entry {
    TracedProcess traced;
    bool lost = false;
  };
  // Returns null if there are too many processes.
  Entry* Find(const TracedName& process);

  std::map<TracedName, Entry> processes_;
  int64_t records_ = 0;  // Of all processes.
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_TRACE_TRACE_COLLECTOR_H_

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

// Identifies a process of an attempt (one run of the protocol).
struct TracedName {
  std::string role;  // "server" or "worker".
  int number = 0;    // Shard of a server, rank of a worker.
  // Incarnation of a worker (the number that it got when it joined); 0 for
  // servers.
  int64_t incarnation = 0;
  bool operator<(const TracedName& other) const {
    return std::tie(role, number, incarnation) <
           std::tie(other.role, other.number, other.incarnation);
  }
};

// The trace records of one process.
struct TracedProcess {
  TracedName process;
  std::vector<std::string> names;
  std::vector<std::string> tracks;
  // The fields `name` and `track` of each record are indices into `names` and
  // `tracks`. Records of arrows between spans have no name.
  std::vector<TraceRecords::Record> records;
  // The coordinator's clock minus the process's clock, and the largest possible
  // error of this difference; see TraceRecords.
  int64_t offset_ns = 0;
  int64_t offset_error_ns = 0;
  // Number of records that the process has dropped because it had no room for
  // them.
  int64_t dropped = 0;
  // Number of records that the collector has dropped because they exceeded a
  // limit.
  int64_t refused = 0;
  // True if the process has sent its last records.
  bool complete = false;
};

// Collects the trace records that processes send, which are untrusted. Drops
// and counts records beyond kMostRecords and kMostRecordsOfAll. Drops all
// records of processes beyond kMostProcesses. Not thread-safe; never blocks.
class TraceCollector {
 public:
  // Limits. For each process: kMostNames names, kMostTracks tracks,
  // kMostTextBytes bytes in one name or track, and kMostRecords records. For
  // all processes: kMostRecordsOfAll records, and kMostProcesses processes.
  static constexpr int kMostNames = 4096;
  static constexpr int kMostTracks = 256;
  static constexpr int kMostTextBytes = 256;
  static constexpr int64_t kMostRecords = int64_t{1} << 17;
  static constexpr int64_t kMostRecordsOfAll = int64_t{1} << 19;
  static constexpr int kMostProcesses = 2048;

  // Call this when a process is known to trace steps. complete() then returns
  // false until the last records of this process have arrived or it has left.
  void Expect(const TracedName& process);
  // Adds the records of a process. Returns InvalidArgument, with the value and
  // the expected value, if the records are malformed or exceed a limit on
  // names, tracks or their lengths.
  absl::Status Add(const TracedName& process, const TraceRecords& records);

  // Returns true if there are records, and every process has sent its last
  // records or has left.
  bool complete() const;
  // Call this when a process has left. complete() then no longer waits for its
  // records.
  void Lose(const TracedName& process);

  // Returns the records of all processes, and removes them from the collector.
  std::vector<TracedProcess> Take();

 private:
  struct Entry {
    TracedProcess traced;
    bool lost = false;
  };
  // Returns the entry of the process, which it adds if there is none. Returns
  // null if there are too many processes.
  Entry* Find(const TracedName& process);

  std::map<TracedName, Entry> processes_;
  int64_t records_ = 0;  // Number of records of all processes.
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_TRACE_TRACE_COLLECTOR_H_

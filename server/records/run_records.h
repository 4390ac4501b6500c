// What a run has recorded so far, for remote programs that display it: the
// lines of metrics.jsonl, the newest events and the job file.
#ifndef TRIBUTARY_SERVER_RECORDS_RUN_RECORDS_H_
#define TRIBUTARY_SERVER_RECORDS_RUN_RECORDS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/executor.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Serves the records of one run: its events and the lines of metrics.jsonl.
// Keeps the newest events in memory, and reads the lines from the file.
// Thread-safe. Only Begin and the destructor block; the other methods may be
// called with locks held, and hold no lock while they read the file.
class RunRecords {
 public:
  // At most kKeptEvents events, the newest, are kept in memory. A StatusReply
  // contains at most the newest kStatusEvents.
  static constexpr size_t kKeptEvents = 256;
  static constexpr int kStatusEvents = 16;
  // The largest number of requests to Get that may wait at the same time.
  static constexpr int kMaxPending = 16;
  // The largest number of events that other processes may report while this
  // process runs. The limit bounds the size of events.jsonl.
  static constexpr int64_t kMaxReports = 10000;
  // A RecordsReply contains at most kReplyBytes of lines, or one longer line.
  // Lines that are longer than kMaxLineBytes are omitted.
  static constexpr int64_t kReplyBytes = 1 << 20;
  static constexpr int64_t kMaxLineBytes = 2 << 20;

  struct Run {
    std::string id;
    std::string name;
    std::string job;     // The resolved job as text.
    std::string folder;  // The folder with metrics.jsonl and events.jsonl.
  };
  struct Hooks {
    // Creates the thread that reads metrics.jsonl. Called at most once.
    std::function<std::unique_ptr<Executor>()> make_executor;
    // Receives each event that another process has reported, after its id,
    // time and attempt number have been set.
    std::function<void(const JobEvent&)> on_report;
  };

  explicit RunRecords(Hooks hooks) : hooks_(std::move(hooks)) {}

  // Sets the run, and reads the newest events from the run's events.jsonl,
  // which earlier processes have written. Call it once, before the other
  // methods.
  void Begin(Run run) ABSL_LOCKS_EXCLUDED(mu_);
  // Sets the attempt number of events that are added later. An attempt is one
  // run of the protocol; a job consists of one or more attempts.
  void SetAttempt(int64_t attempt) ABSL_LOCKS_EXCLUDED(mu_);

  // Sets the event's id and time. If its attempt number is 0, sets that to the
  // number from SetAttempt. Stores the event and returns it.
  JobEvent AddEvent(JobEvent event) ABSL_LOCKS_EXCLUDED(mu_);

  // Call BeginChange before lines are removed from metrics.jsonl, and EndChange
  // afterwards, with a larger `generation` than before. A reader of the lines
  // sees from the generation that lines were removed. Between the two calls,
  // and before the first EndChange, Get returns no lines.
  void BeginChange() ABSL_LOCKS_EXCLUDED(mu_);
  void EndChange(int64_t generation) ABSL_LOCKS_EXCLUDED(mu_);

  // Adds the run's ID, its name and its newest events to `*reply`.
  void FillStatus(StatusReply* reply) const ABSL_LOCKS_EXCLUDED(mu_);

  // Calls `done` once, with the answer to the RPC GetRecords, on the reading
  // thread or on the calling thread. The answer is ResourceExhausted if
  // kMaxPending requests wait already, InvalidArgument if the request's
  // position is not in the file, and the system's error if the file cannot be
  // read.
  void Get(const RecordsRequest& request,
           std::function<void(absl::StatusOr<RecordsReply>)> done)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Handles the RPC ReportEvent; `step` is the number of steps completed.
  // Returns InvalidArgument, with the reason, if the report is malformed, and
  // ResourceExhausted after kMaxReports reports.
  absl::Status Report(const EventReport& report, int64_t step)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::StatusOr<RecordsReply> Read(const RecordsRequest& request) const
      ABSL_LOCKS_EXCLUDED(mu_);
  JobEvent Add(JobEvent event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Hooks hooks_;
  mutable absl::Mutex mu_;
  Run run_ ABSL_GUARDED_BY(mu_);
  int64_t attempt_ ABSL_GUARDED_BY(mu_) = 0;
  // The argument of the last EndChange; 0 after BeginChange, and before the
  // first EndChange. If it is 0, Get returns no lines.
  int64_t generation_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t last_event_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<JobEvent> events_ ABSL_GUARDED_BY(mu_);
  // The ids of the newest reports, by which repeated reports are recognized; at
  // most kKeptEvents.
  std::deque<uint64_t> reports_ ABSL_GUARDED_BY(mu_);
  int64_t report_count_ ABSL_GUARDED_BY(mu_) = 0;
  int pending_ ABSL_GUARDED_BY(mu_) = 0;
  // Declared last, so that its tasks end before the fields above are destroyed.
  std::unique_ptr<Executor> reader_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_RECORDS_RUN_RECORDS_H_

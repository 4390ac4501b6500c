// The files of a job in its output folder: job.textproto, metrics.jsonl,
// events.jsonl, final/model.safetensors and summary.json.
#ifndef TRIBUTARY_SERVER_PROCESS_RUN_OUTPUT_H_
#define TRIBUTARY_SERVER_PROCESS_RUN_OUTPUT_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/os/file_system.h"
#include "common/os/logger.h"
#include "common/parameters/arena_layout.h"
#include "common/tensor_io/safetensors_file.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/records/line_file.h"

namespace tributary {

// Writes the results of a job into one folder. Methods block on the disk, and
// return the system's error, with the path, if a file cannot be read or
// written. Thread-safe.
class RunOutput {
 public:
  // Creates the folder and its parents. If that fails, returns the file
  // system's error, such as PermissionDenied, with the path. `log` and `files`
  // must outlive this object.
  static absl::StatusOr<std::unique_ptr<RunOutput>> Create(
      const std::string& directory, Logger* log,
      FileSystem* files = FileSystem::Posix());

  // Writes job.textproto. In the folder of an existing run, call it only when
  // this job is certain to resume that run.
  absl::Status WriteJob(const JobSpec& job);

  // Writes DataFacts.encoding to data.json. The encoding contains what
  // prediction needs to know about the training samples, such as means and
  // categories. If it is empty, removes the file instead. WriteModel copies the
  // file to FinalFolder.
  absl::Status WriteEncoding(const DataFacts& facts);

  // These functions write and remove server.json. The file contains the address
  // from which programs on this machine, such as the dashboard, get the job's
  // status. If the process is killed, the file is not removed. Both functions
  // ignore errors.
  void WriteAddress(const std::string& address);
  void RemoveAddress();

  // Returns the ID of the run whose results are in this folder. `begins` is
  // true if a new run begins; the events of the previous run are then removed.
  // Creates a new ID if a new run begins or if the folder has no ID. Stores a
  // new ID in the folder; if that fails, logs a warning.
  std::string RunId(bool begins);

  // Returns the number of a new attempt (one run of the protocol). The number
  // was not used in this folder before: it is the last number plus one. The
  // number is on disk when the call returns. Returns DataLoss if the file with
  // the last number contains no number. After an error the call may be
  // repeated.
  absl::StatusOr<int64_t> NextAttempt();
  // Returns FailedPrecondition if another process has called NextAttempt
  // for this folder since the call that returned `attempt`, and DataLoss if the
  // file with the last number contains no number.
  absl::Status CheckAttempt(int64_t attempt) const;

  // Removes the lines of steps after `step` and of evaluations after
  // `evaluated_step` from metrics.jsonl, because these steps and evaluations
  // will be computed again. Call it before AppendMetrics.
  absl::Status RewindMetrics(int64_t step, int64_t evaluated_step)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Adds a line to metrics.jsonl. A write error, such as a full disk, loses the
  // line but does not stop the training. Only the first error is logged.
  void AppendMetrics(const std::string& line) ABSL_LOCKS_EXCLUDED(mu_);

  // Adds a line to events.jsonl, which also keeps the events of earlier
  // attempts. A write error loses the line. Only the first error is logged.
  void AppendEvent(const std::string& line) ABSL_LOCKS_EXCLUDED(mu_);

  // Writes the file `name` (kFinalModelName or kFinalAverageName) in
  // FinalFolder from `weights`, which contains all parameters as `layout`
  // arranges them, and the tensors `untrained`, with this metadata in its
  // header. Returns the SHA-256, in
  // hexadecimal, of the float32 weights in the order of the parameter table,
  // without the gaps between parameters.
  absl::StatusOr<std::string> WriteModel(
      const std::string& name, const ArenaLayout& layout, const float* weights,
      const std::vector<NamedTensor>& untrained = {},
      const std::map<std::string, std::string>& metadata = {});

  // Writes summary.json with this text.
  absl::Status WriteSummary(const std::string& summary);

 private:
  RunOutput(std::string directory, Logger* log, FileSystem* files)
      : directory_(std::move(directory)), log_(log), files_(files) {}

  // A file in `directory_` to which lines are added.
  struct RecordFile {
    const char* name;
    LineFile lines;
    bool failed = false;  // A write has failed, which was logged.
  };

  void Append(const std::string& line, RecordFile* file)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string directory_;
  Logger* const log_;
  FileSystem* const files_;
  std::string address_;  // The contents of server.json.
  // A number that NextAttempt has written to the file but could not sync to the
  // disk. 0 if there is none.
  std::atomic<int64_t> unsynced_attempt_{0};
  absl::Mutex mu_;
  RecordFile metrics_ ABSL_GUARDED_BY(mu_) = {"metrics.jsonl"};
  RecordFile events_ ABSL_GUARDED_BY(mu_) = {"events.jsonl"};
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROCESS_RUN_OUTPUT_H_

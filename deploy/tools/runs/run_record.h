// What the files of a run say about it.
#ifndef TRIBUTARY_DEPLOY_TOOLS_RUNS_RUN_RECORD_H_
#define TRIBUTARY_DEPLOY_TOOLS_RUNS_RUN_RECORD_H_

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/os/untrusted_folder.h"
#include "deploy/tools/runs/job_fields.h"
#include "nlohmann/json_fwd.hpp"

namespace tributary {

// The facts about a run that a list of runs shows, from the files in the run's
// folder. Reads little of a file, and reads it again only if it has changed, so
// that hundreds of runs can be listed each second. Not thread-safe.
class RunRecord {
 public:
  static constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();
  // Largest size, in bytes, of a summary.json and of a job file that is read.
  static constexpr int64_t kMaxSummaryBytes = 2 << 20;
  static constexpr int64_t kMaxJobBytes = 1 << 20;

  explicit RunRecord(UntrustedFolder folder) : folder_(std::move(folder)) {}

  // Reads the files that have changed since the last call.
  void Update();

  const UntrustedFolder& folder() const { return folder_; }

  // The end of the run, from summary.json.
  struct End {
    std::string status;  // "done", "stopped" or "failed"; empty: no summary.
    std::string failure;
    std::string unit;  // Of samples.
    double seconds = kAbsent;
    absl::optional<int64_t> steps;
    double loss = kAbsent;
    double evaluation_loss = kAbsent;
    double evaluation_accuracy = kAbsent;
  };
  const End& end() const { return end_; }

  // The newest lines of metrics.jsonl.
  struct Progress {
    absl::optional<int64_t> step;
    double seconds = kAbsent;
    double loss = kAbsent;
    double evaluation_loss = kAbsent;
    double evaluation_accuracy = kAbsent;
  };
  const Progress& progress() const { return progress_; }

  struct Job {
    absl::Status status;  // Whether the job file can be read and parsed.
    std::string model;    // ModelTitle.
    int64_t steps = 0;    // 0: the job file sets `epochs` instead.
    std::vector<JobField> fields;
  };
  const Job& job() const { return job_; }

  // Returns when the run began: the time of its first event or, if it has none,
  // the time at which its job file was written. InfinitePast if unknown.
  absl::Time began() const {
    return first_event_ == absl::InfinitePast() ? job_file_.modified
                                                : first_event_;
  }
  // Returns a number that changes with metrics.jsonl.
  int64_t metrics_bytes() const { return metrics_file_.bytes; }

 private:
  // Returns true, and sets `*known`, if the file differs from `*known`. A file
  // that cannot be opened equals an empty one.
  bool HasChanged(const char* name, InputFile::Facts* known) const;
  void ReadSummary();
  void ReadMetrics();
  void ReadJob();
  void ReadFirstEvent();

  const UntrustedFolder folder_;
  End end_;
  Progress progress_;
  Job job_;
  absl::Time first_event_ = absl::InfinitePast();
  // The versions of the files that were read.
  InputFile::Facts summary_file_;
  InputFile::Facts metrics_file_;
  InputFile::Facts job_file_;
  ino_t events_file_ = 0;
};

// Returns summary.json of the run in `folder`, or null if there is none.
nlohmann::ordered_json SummaryOf(const UntrustedFolder& folder);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_RUNS_RUN_RECORD_H_

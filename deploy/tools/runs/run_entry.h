// One run in a list of runs.
#ifndef TRIBUTARY_DEPLOY_TOOLS_RUNS_RUN_ENTRY_H_
#define TRIBUTARY_DEPLOY_TOOLS_RUNS_RUN_ENTRY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "deploy/tools/runs/job_fields.h"
#include "deploy/tools/runs/run_record.h"
#include "deploy/tools/runs/run_watch.h"
#include "nlohmann/json_fwd.hpp"

namespace tributary {

// The state of a run whose summary.json is missing and whose coordinator does
// not answer: it was interrupted, or runs where its files do not lead.
inline constexpr char kNoAnswer[] = "no answer";

// What lists of runs show of a run. Numbers that are not known are NaN.
struct RunEntry {
  std::string name;
  std::string path;
  std::string problem;  // Why the coordinator is not queried; see RunWatch.
  bool live = false;    // Whether the coordinator answers.
  // While the job runs, its phase, such as "training"; then "done", "stopped",
  // "failed" or kNoAnswer.
  std::string state;
  int64_t step = 0;
  int64_t steps = 0;  // In the whole run. 0: not known.
  std::string unit;   // Of samples; may be empty.
  std::string model;  // May be empty.
  double loss = RunRecord::kAbsent;
  double evaluation_loss = RunRecord::kAbsent;
  double evaluation_accuracy = RunRecord::kAbsent;
  double seconds = RunRecord::kAbsent;  // Of training.
  absl::Time began = absl::InfinitePast();
  std::vector<JobField> fields;
};

// Returns the entry of a run.
RunEntry EntryOf(const RunWatch& run);
// Returns the entry of a run whose job has ended.
RunEntry EntryOf(const RunRecord& record);

// Returns the entry as a JSON object; numbers that are not known are null.
nlohmann::ordered_json EntryJson(const RunEntry& entry);

// Returns true if `a` comes before `b` in lists: running jobs first, then the
// run that began last.
bool ComesFirst(const RunEntry& a, const RunEntry& b);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_RUNS_RUN_ENTRY_H_

// The results of a comparison of exchanges: the figures of each run, from its
// summary and metrics.
#ifndef TRIBUTARY_DEPLOY_COMPARE_COMPARISON_H_
#define TRIBUTARY_DEPLOY_COMPARE_COMPARISON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "deploy/compare/exchange_variants.h"

namespace tributary {

// One line of metrics.jsonl.
struct LossPoint {
  int64_t step = 0;
  double seconds = 0;  // Time since the first step started.
  double loss = 0;     // Mean since the previous line; may be NaN.
};

struct ProcessFigures {
  std::string role;  // "server" or "worker".
  int rank = 0;
  // Mean per step, including start and evaluation.
  double bytes_sent = 0;
  double bytes_received = 0;
  // Shared memory counts in each process that uses it.
  double peak_memory_bytes = 0;

  std::string Name() const;  // Returns "worker 1".
};

// Figures of a run. Milliseconds are means per step of the job.
struct RunFigures {
  int64_t parameters = 0;
  int64_t steps = 0;
  double seconds = 0;  // Duration of the whole training, including evaluation.
  // Time between steps. Like the figures below, it includes the first steps,
  // which take longer.
  double step_ms = 0;
  // Components of a step, averaged over the workers. The exposed part is not
  // hidden by computation. For an all-reduce it includes waiting for other
  // workers, which cannot be separated.
  double compute_ms = 0;
  double data_ms = 0;
  double exchange_ms = 0;  // Exposed time of the exchange, without waiting_ms.
  absl::optional<double> waiting_ms;
  double other_ms = 0;
  absl::optional<double> predicted_ms;
  double final_loss = 0;  // NaN if there is none.
  absl::optional<double> evaluation_loss;
  absl::optional<double> evaluation_accuracy;
  std::string weights_sha256;
  std::vector<ProcessFigures> processes;  // Servers, then workers, by rank.

  double total_memory() const;
  double total_bytes_sent() const;
};

struct ComparedRun {
  enum class State { kWaiting, kDone, kFailed, kStopped };

  std::string name;
  int servers = 1;
  std::string transport;  // Value of TransportName.
  std::string folder;     // Path relative to the report.
  State state = State::kWaiting;
  std::string error;                   // Error of a failed run.
  absl::optional<RunFigures> figures;  // Set if the run is done.
  std::vector<LossPoint> losses;       // Also set if the run is not done.
};

// The load of a host if every worker runs on a host of its own.
struct HostFigures {
  std::string placement;  // Placement of the servers, as in a plan.
  std::string host;       // Example: "worker 0 and the server".
  double bytes_out = 0;   // Bytes through its link in a step.
  double bytes_in = 0;
  // Measured memory of its processes; absent if no run provides it.
  absl::optional<double> memory_bytes;
  // Predicted step time of the job, equal for all hosts of a placement.
  double step_ms = 0;
};

struct Comparison {
  std::string job;
  int workers = 1;
  int threads = 1;  // Compute threads of each worker.
  int cores = 1;
  double bandwidth = 0;  // Bandwidth of the hosts' links, in bytes per second.
  std::vector<ComparedRun> runs;
  std::vector<LeftOutExchange> left_out;
  std::vector<HostFigures> hosts;  // Empty until a run is done.
};

// Reads the figures of a run that was evaluated only at its end. Returns
// DataLoss if `summary`, the text of its summary.json, does not describe a run
// with complete steps.
absl::StatusOr<RunFigures> ReadRunFigures(absl::string_view summary,
                                          absl::Span<const LossPoint> losses);

// Parses the lines about training; skips other lines and damaged ones.
std::vector<LossPoint> ReadLosses(absl::string_view metrics);

// Returns the name of the transport between the job's processes on one host,
// assuming that shared memory works. `on_gpus`: the workers compute on GPUs.
std::string TransportName(const JobSpec& job, bool on_gpus);

// Returns groups of two or more runs whose final weights are bitwise identical,
// by name.
std::vector<std::vector<std::string>> RunsOfSameWeights(
    const Comparison& comparison);

// Returns "done", "failed", "stopped" or "not run".
const char* StateName(ComparedRun::State state);

// Returns "828,544".
std::string WithCommas(int64_t count);

// Returns the first completed run with this name; null if there is none.
const ComparedRun* FindDone(const Comparison& comparison,
                            absl::string_view name);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMPARE_COMPARISON_H_

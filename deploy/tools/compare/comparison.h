// The results of a comparison of exchanges (`tributary compare`), which trains
// one job once with each exchange. The figures of each run come from its
// summary.json and metrics.jsonl.
#ifndef TRIBUTARY_DEPLOY_TOOLS_COMPARE_COMPARISON_H_
#define TRIBUTARY_DEPLOY_TOOLS_COMPARE_COMPARISON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "deploy/tools/compare/exchange_variants.h"
#include "nlohmann/json_fwd.hpp"

namespace tributary {

// The training loss in one line of a run's metrics.jsonl.
struct LossPoint {
  int64_t step = 0;    // Number of complete steps.
  double seconds = 0;  // Time since the first step started.
  // Mean loss of the steps since the previous line of metrics.jsonl; may be
  // NaN.
  double loss = 0;
};

struct ProcessFigures {
  // "server" or "worker" or, for a run in one process, "device": what its
  // worker needs, and device 0 also what the servers need.
  std::string role;
  int rank = 0;
  // Bytes sent and received per step: the bytes of the whole run, including its
  // start and the evaluation, divided by the number of steps.
  double bytes_sent = 0;
  double bytes_received = 0;
  // Peak memory in bytes. Includes all shared memory that the process uses, so
  // memory that several processes share is counted in each of them.
  double peak_memory_bytes = 0;
  double cpu_seconds = 0;  // Of the whole run.

  // Returns the role and the rank of the process, such as "worker 1".
  std::string Name() const;
};

// Figures of one run of a comparison. Times in milliseconds are means per step
// of the job.
struct RunFigures {
  int64_t parameters = 0;
  int64_t steps = 0;
  double seconds = 0;  // Duration of the whole training, including evaluation.
  // Time from the completion of one step to the completion of the next. Like
  // the other mean times of a run, it includes the first steps, which take
  // longer.
  double step_ms = 0;
  // The components of step_ms, averaged over the workers: computing, waiting
  // for data, the exposed time of the exchange, waiting for other workers, and
  // the rest of the step. The exposed time of the exchange is the part that
  // does not overlap with computation. For an all-reduce, waiting_ms is absent
  // and exchange_ms includes the wait for other workers, because the two cannot
  // be measured separately.
  double compute_ms = 0;
  double data_ms = 0;
  double exchange_ms = 0;  // Exposed time of the exchange, without waiting_ms.
  absl::optional<double> waiting_ms;
  double other_ms = 0;
  // Predicted value of step_ms; see PredictLocalRun. Absent if there is no
  // prediction.
  absl::optional<double> predicted_ms;
  double final_loss = 0;  // NaN if there is none.
  absl::optional<double> evaluation_loss;
  absl::optional<double> evaluation_accuracy;
  std::string weights_sha256;
  // Servers, then workers, by rank; or devices.
  std::vector<ProcessFigures> processes;

  // Return the peak memory, and the bytes sent per step, of all processes
  // together.
  double total_memory() const;
  double total_bytes_sent() const;
};

// The fraction of a step during which the workers of a pipeline are idle.
struct ComparedBubble {
  // Includes all time in which the workers do not compute.
  double measured = 0;
  // With equal passes, and if workers wait only for other stages; see
  // PipelineShape.
  double formula = 0;
};

struct ComparedRun {
  enum class State { kWaiting, kDone, kFailed, kStopped };

  std::string name;  // Name of the exchange; one of ExchangeNames().
  int servers = 1;
  std::string transport;  // Value of TransportName.
  std::string folder;     // Path of the output folder, relative to the report.
  State state = State::kWaiting;
  std::string error;                      // Error of a failed run.
  absl::optional<RunFigures> figures;     // Set if the run is done.
  absl::optional<ComparedBubble> bubble;  // Set if a pipeline is done.
  // Training losses of the run. Also set if the run failed or was stopped.
  std::vector<LossPoint> losses;
};

// The predicted load of one host of a cluster on which every worker runs on a
// host of its own.
struct HostFigures {
  // Name of the placement, which states on which hosts the servers run; see
  // PlannedExchange::name.
  std::string placement;
  std::string host;      // Example: "worker 0 and the server".
  double bytes_out = 0;  // Bytes through the link of the host in one step.
  double bytes_in = 0;
  // Sum of the peak memory of the processes on the host, in bytes, as measured
  // in the run of this comparison that has the same exchange. Absent if that
  // run is not done.
  absl::optional<double> memory_bytes;
  // Predicted step time of the job in milliseconds, which is the same for all
  // hosts of one placement.
  double step_ms = 0;
};

struct Comparison {
  std::string job;
  std::string model;  // ModelTitle of the job.
  int workers = 1;
  int threads = 1;  // Compute threads of each worker.
  int cores = 1;
  double bandwidth = 0;  // Bandwidth of the hosts' links, in bytes per second.
  std::vector<ComparedRun> runs;
  std::vector<LeftOutExchange> left_out;
  std::vector<HostFigures> hosts;  // Empty until a run is done.
};

// Reads the figures of a run that was evaluated only at its end. `losses` is
// the result of ReadLosses for the run; the step and the time of its last
// element determine step_ms. Returns DataLoss if `summary`, the run's
// summary.json, does not describe a run with complete steps.
absl::StatusOr<RunFigures> ReadRunFigures(const nlohmann::ordered_json& summary,
                                          absl::Span<const LossPoint> losses);

// Parses `metrics`, the text of a metrics.jsonl. Skips lines that are not valid
// JSON, and lines without a training loss.
std::vector<LossPoint> ReadLosses(absl::string_view metrics);

// Returns the name of the transport between the processes of `job` on one host,
// assuming that shared memory works. `on_gpus` is true if the workers compute
// on GPUs.
std::string TransportName(const JobSpec& job, bool on_gpus);

// Returns the groups of two or more runs whose final weights are bitwise
// identical. Each group is a list of the names of its runs.
std::vector<std::vector<std::string>> RunsOfSameWeights(
    const Comparison& comparison);

// Returns the name of `state` for users: "done", "failed", "stopped" or "not
// run".
const char* StateName(ComparedRun::State state);

// Formats a number with commas between groups of three digits: "828,544".
std::string WithCommas(int64_t count);

// Returns the first completed run with this name; null if there is none.
const ComparedRun* FindDone(const Comparison& comparison,
                            absl::string_view name);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_COMPARE_COMPARISON_H_

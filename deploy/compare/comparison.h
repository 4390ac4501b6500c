// What a comparison of exchanges has found: the figures of each run, as its
// summary and metrics have them.
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

// A line of metrics.jsonl.
struct LossPoint {
  int64_t step = 0;
  double seconds = 0;  // Since the first step began.
  double loss = 0;     // Mean since the line before; may be NaN.
};

struct ProcessFigures {
  std::string role;  // "server" or "worker".
  int rank = 0;
  // In a mean step, start and evaluation included.
  double bytes_sent = 0;
  double bytes_received = 0;
  double peak_memory_bytes = 0;  // Shared memory counts in each of its users.

  std::string Name() const;  // "worker 1".
};

// Milliseconds are those of a mean step of the job.
struct RunFigures {
  int64_t parameters = 0;
  int64_t steps = 0;
  double seconds = 0;  // Of the whole training, with its evaluation.
  // From one to the next; the first steps, which take longer, included as in
  // what follows.
  double step_ms = 0;
  // What a step is made of, in the mean of the workers. Exposed: what computing
  // did not hide. An all-reduce does not know which part of it is waiting for
  // others.
  double compute_ms = 0;
  double data_ms = 0;
  double exchange_ms = 0;  // Exposed, without waiting_ms.
  absl::optional<double> waiting_ms;
  double other_ms = 0;
  absl::optional<double> predicted_ms;
  double final_loss = 0;  // NaN where there is none.
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
  std::string transport;  // As TransportName.
  std::string folder;     // Beside the report.
  State state = State::kWaiting;
  std::string error;                   // Of one that failed.
  absl::optional<RunFigures> figures;  // Of one that is done.
  std::vector<LossPoint> losses;       // Also of one that is not.
};

// What a host has to carry, if every worker has one of its own.
struct HostFigures {
  std::string placement;  // Where the servers are; as in a plan.
  std::string host;       // "worker 0 and the server".
  double bytes_out = 0;   // Through its link, in a step.
  double bytes_in = 0;
  // Of its processes, as measured; absent if no run had them.
  absl::optional<double> memory_bytes;
  // Of the job, predicted: the same for all hosts of a placement.
  double step_ms = 0;
};

struct Comparison {
  std::string job;
  int workers = 1;
  int threads = 1;  // Of each worker.
  int cores = 1;
  double bandwidth = 0;  // Of the hosts' links, in bytes per second.
  std::vector<ComparedRun> runs;
  std::vector<LeftOutExchange> left_out;
  std::vector<HostFigures> hosts;  // None before a run is done.
};

// Of a run that was evaluated at its end only. DataLoss if `summary`, the text
// of its summary.json, is not that of a run with complete steps.
absl::StatusOr<RunFigures> ReadRunFigures(absl::string_view summary,
                                          absl::Span<const LossPoint> losses);

// The lines about training; others, and damaged ones, are left out.
std::vector<LossPoint> ReadLosses(absl::string_view metrics);

// How the processes of such a job talk on one host, where shared memory works.
// `on_gpus`: its workers compute there.
std::string TransportName(const JobSpec& job, bool on_gpus);

// The names of runs whose final weights are the same, bit for bit: groups of
// two or more.
std::vector<std::vector<std::string>> RunsOfSameWeights(
    const Comparison& comparison);

// "done", "failed", "stopped", "not run".
const char* StateName(ComparedRun::State state);

// "828,544".
std::string WithCommas(int64_t count);

// The first run that is done with such a name; null: none.
const ComparedRun* FindDone(const Comparison& comparison,
                            absl::string_view name);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMPARE_COMPARISON_H_

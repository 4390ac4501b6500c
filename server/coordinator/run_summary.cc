#include "server/coordinator/run_summary.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/latency_histogram.h"
#include "common/job/exchange_traits.h"
#include "common/job/job.h"
#include "common/plan/memory_account.h"
#include "nlohmann/json.hpp"
#include "server/progress/step_breakdown.h"

namespace tributary {
namespace {

nlohmann::ordered_json StepTimesJson(const std::deque<double>& times) {
  if (times.empty()) return {{"count", 0}};
  std::vector<double> sorted(times.begin(), times.end());
  std::sort(sorted.begin(), sorted.end());
  const auto quantile = [&sorted](double q) {
    return sorted[static_cast<size_t>(
        q * static_cast<double>(sorted.size() - 1) + 0.5)];
  };
  const double sum = std::accumulate(sorted.begin(), sorted.end(), 0.0);
  return {{"count", sorted.size()},
          {"mean", sum / static_cast<double>(sorted.size())},
          {"median", sorted[sorted.size() / 2]},
          {"p90", quantile(0.9)},
          {"p99", quantile(0.99)},
          {"min", sorted.front()}};
}

nlohmann::ordered_json LatencyJson(const LatencyHistogram& latency) {
  if (latency.count() == 0) return {{"count", 0}};
  const auto microseconds = [&latency](double quantile) {
    return absl::ToDoubleMicroseconds(latency.Quantile(quantile));
  };
  return {{"count", latency.count()},
          {"median", microseconds(0.5)},
          {"p90", microseconds(0.9)},
          {"p99", microseconds(0.99)}};
}

StepBreakdown::Total WaitsOf(int rank,
                             const std::optional<JobProgress>& progress) {
  if (!progress.has_value()) return {};
  const auto& totals = progress->breakdown().totals();
  const auto found = totals.find(rank);
  return found == totals.end() ? StepBreakdown::Total() : found->second;
}

nlohmann::ordered_json AccountJson(const MemoryAccount& account) {
  nlohmann::ordered_json json;
  for (const auto& [name, bytes] : MemoryParts(account)) json[name] = bytes;
  return json;
}

nlohmann::ordered_json ProcessJson(const ProcessReport& process,
                                   const std::optional<JobProgress>& progress) {
  const ProcessStatistics& s = process.statistics;
  nlohmann::ordered_json json = {{"role", process.role},
                                 {"rank", process.rank},
                                 {"bytes_sent", s.bytes_sent()},
                                 {"bytes_received", s.bytes_received()},
                                 {"peak_memory_bytes", s.peak_memory_bytes()},
                                 {"cpu_seconds", s.cpu_seconds()}};
  if (!process.host.empty()) json["host"] = process.host;
  if (process.pid != 0) json["pid"] = process.pid;
  if (!process.release.empty()) json["release"] = process.release;
  if (!process.device.empty()) json["device"] = process.device;
  if (s.shared_bytes_sent() + s.shared_bytes_received() > 0) {
    json["shared_bytes_sent"] = s.shared_bytes_sent();
    json["shared_bytes_received"] = s.shared_bytes_received();
  }
  if (s.proportional_memory_bytes() > 0) {
    json["proportional_memory_bytes"] = s.proportional_memory_bytes();
  }
  if (s.has_memory_account()) {
    json["memory_account"] = AccountJson(s.memory_account());
  }
  if (s.has_device_account()) {
    json["device_account"] = AccountJson(s.device_account());
  }
  for (const TableSize& table : s.table()) {
    json["tables"].push_back({{"name", table.name()},
                              {"rows", table.rows()},
                              {"bytes", table.bytes()}});
  }
  if (process.role != "worker") return json;
  json["compute_seconds"] = s.compute_seconds();
  json["forward_seconds"] = s.forward_seconds();
  json["backward_seconds"] = s.backward_seconds();
  json["data_seconds"] = s.data_seconds();
  json["exchange_seconds"] = s.exchange_seconds();
  const StepBreakdown::Total waits = WaitsOf(process.rank, progress);
  json["waiting_seconds"] = waits.waiting_seconds;
  json["waited_for_seconds"] = waits.waited_for_seconds;
  json["evaluation_seconds"] = s.evaluation_seconds();
  json["leaves"] = s.leaves();
  json["leaf_cpu_seconds"] = s.leaf_cpu_seconds();
  json["steps"] = s.steps();
  return json;
}

}  // namespace

std::string SummaryJson(const Attempt& attempt,
                        const std::string& weights_sha256) {
  const JobSpec& job = attempt.options.job;
  const absl::Status& failure = attempt.phase.failure();
  const std::optional<JobProgress>& progress = attempt.progress;
  nlohmann::ordered_json summary = {
      {"name", job.name()},
      {"status", !failure.ok()             ? "failed"
                 : attempt.phase.drained() ? "stopped"
                                           : "done"},
  };
  if (!failure.ok()) {
    summary["failure"] = std::string(failure.message());
  }
  if (progress.has_value()) {
    const EvaluationProgress& evaluations = progress->evaluations();
    const JobTotals totals = progress->Totals();
    summary["steps"] = progress->completed_steps();
    if (totals.loss.has_value()) summary["final_loss"] = *totals.loss;
    if (evaluations.evaluation().has_value()) {
      const Evaluation& evaluation = *evaluations.evaluation();
      summary["evaluation"] = {{"step", evaluation.step},
                               {"loss", evaluation.loss}};
      if (PredictsTokens(job)) {
        summary["evaluation"]["perplexity"] = std::exp(evaluation.loss);
      }
      if (job.model().loss() != ModelSpec::MEAN_SQUARED_ERROR) {
        summary["evaluation"]["accuracy"] = evaluation.accuracy;
      }
      for (const auto& [name, value] : evaluation.metrics) {
        summary["evaluation"][name] = value;
      }
    }
    const EvaluationHistory& history = evaluations.history();
    if (history.best_result().has_value()) {
      summary["best"] = {
          {"metric", EvaluationMetric::Name_Name(job.checkpoint().best())},
          {"step", history.best_step()},
          {"result", *history.best_result()}};
    }
    if (!evaluations.stop_reason().empty()) {
      summary["stop_reason"] = evaluations.stop_reason();
    }
    summary["seconds"] = totals.seconds;
    summary["samples_per_second"] = totals.samples_per_second;
    summary["unit"] = progress->facts().unit();
    summary["step_milliseconds"] =
        StepTimesJson(progress->step_times().milliseconds);
  }
  summary["attempt"] = attempt.options.attempt;
  summary["skipped_steps"] =
      progress.has_value() ? progress->Totals().skipped_steps : 0;
  const int64_t failures = attempt.checkpoints.has_value()
                               ? attempt.checkpoints->schedule().failures()
                               : 0;
  summary["checkpoint_failures"] = failures;
  if (failures > 0) {
    summary["checkpoint_failure"] = attempt.checkpoints->schedule().failure();
  }
  summary["workers"] = attempt.most_workers;
  summary["workers_lost"] = attempt.workers_lost;
  summary["deals_by_speed"] = attempt.assignments_by_speed;
  summary["servers"] = attempt.options.servers;
  summary["precision"] = JobSpec::Precision_Name(job.precision());
  summary["exchange"] = ResolveExchange(job).name;
  if (attempt.layout.has_value()) {
    summary["parameters"] = attempt.layout->parameter_count();
  }
  ProcessStatistics total;
  double waiting = 0;
  LatencyHistogram latency;
  nlohmann::ordered_json processes = nlohmann::ordered_json::array();
  for (const ProcessReport& process : attempt.farewells) {
    const ProcessStatistics& s = process.statistics;
    processes.push_back(ProcessJson(process, progress));
    if (process.role != "worker") continue;
    total.set_bytes_sent(total.bytes_sent() + s.bytes_sent());
    total.set_bytes_received(total.bytes_received() + s.bytes_received());
    total.set_compute_seconds(total.compute_seconds() + s.compute_seconds());
    total.set_exchange_seconds(total.exchange_seconds() + s.exchange_seconds());
    total.set_data_seconds(total.data_seconds() + s.data_seconds());
    waiting += WaitsOf(process.rank, progress).waiting_seconds;
    latency.Add(LatencyHistogram(s.chunk_latency()));
  }
  // Sums over all workers.
  summary["bytes_sent"] = total.bytes_sent();
  summary["bytes_received"] = total.bytes_received();
  summary["compute_seconds"] = total.compute_seconds();
  summary["exchange_seconds"] = total.exchange_seconds();
  summary["waiting_seconds"] = waiting;
  summary["data_seconds"] = total.data_seconds();
  summary["chunk_latency_microseconds"] = LatencyJson(latency);
  summary["processes"] = std::move(processes);
  if (!weights_sha256.empty()) {
    summary["weights_sha256"] = weights_sha256;
  }
  return absl::StrCat(summary.dump(2), "\n");
}

}  // namespace tributary

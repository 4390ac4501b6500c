#include "server/progress/run_summary.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/latency_histogram.h"
#include "common/job/exchange_traits.h"
#include "common/job/job.h"
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

StepBreakdown::Total WaitsOf(int rank, const JobProgress* progress) {
  if (progress == nullptr) return {};
  const auto& totals = progress->breakdown().totals();
  const auto found = totals.find(rank);
  return found == totals.end() ? StepBreakdown::Total() : found->second;
}

nlohmann::ordered_json ProcessJson(const ProcessReport& process,
                                   const JobProgress* progress) {
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
  json["steps"] = s.steps();
  return json;
}

}  // namespace

std::string SummaryJson(const RunFacts& facts) {
  nlohmann::ordered_json summary = {
      {"name", facts.job->name()},
      {"status", !facts.failure.ok() ? "failed"
                 : facts.stopped     ? "stopped"
                                     : "done"},
  };
  if (!facts.failure.ok()) {
    summary["failure"] = std::string(facts.failure.message());
  }
  if (facts.progress != nullptr) {
    summary["steps"] = facts.progress->completed_steps();
    summary["final_loss"] = facts.progress->Totals().loss;
    if (facts.progress->evaluations().evaluation().has_value()) {
      const Evaluation& evaluation =
          *facts.progress->evaluations().evaluation();
      summary["evaluation"] = {{"step", evaluation.step},
                               {"loss", evaluation.loss}};
      if (PredictsTokens(*facts.job)) {
        summary["evaluation"]["perplexity"] = std::exp(evaluation.loss);
      }
      if (facts.job->model().loss() == ModelSpec::CROSS_ENTROPY) {
        summary["evaluation"]["accuracy"] = evaluation.accuracy;
      }
    }
    const EvaluationHistory& history = facts.progress->evaluations().history();
    if (history.best_result().has_value()) {
      summary["best"] = {{"metric", EvaluationMetric::Name_Name(
                                        facts.job->checkpoint().best())},
                         {"step", history.best_step()},
                         {"result", *history.best_result()}};
    }
    if (!facts.progress->evaluations().stop_reason().empty()) {
      summary["stop_reason"] = facts.progress->evaluations().stop_reason();
    }
    summary["seconds"] = facts.progress->Totals().seconds;
    summary["samples_per_second"] = facts.progress->Totals().samples_per_second;
    summary["unit"] = facts.progress->facts().unit();
    summary["step_milliseconds"] =
        StepTimesJson(facts.progress->step_times().milliseconds);
  }
  summary["attempt"] = facts.attempt;
  summary["skipped_steps"] = facts.skipped_steps;
  summary["checkpoint_failures"] = facts.checkpoint_failures;
  if (facts.checkpoint_failures > 0) {
    summary["checkpoint_failure"] = facts.checkpoint_failure;
  }
  summary["workers"] = facts.workers;
  summary["workers_lost"] = facts.workers_lost;
  summary["deals_by_speed"] = facts.reassignments_by_speed;
  summary["servers"] = facts.servers;
  summary["precision"] = JobSpec::Precision_Name(facts.job->precision());
  summary["exchange"] = ResolveExchange(*facts.job).name;
  if (facts.parameters > 0) summary["parameters"] = facts.parameters;
  ProcessStatistics total;
  double waiting = 0;
  LatencyHistogram latency;
  nlohmann::ordered_json processes = nlohmann::ordered_json::array();
  for (const ProcessReport& process : facts.processes) {
    const ProcessStatistics& s = process.statistics;
    processes.push_back(ProcessJson(process, facts.progress));
    if (process.role != "worker") continue;
    total.set_bytes_sent(total.bytes_sent() + s.bytes_sent());
    total.set_bytes_received(total.bytes_received() + s.bytes_received());
    total.set_compute_seconds(total.compute_seconds() + s.compute_seconds());
    total.set_exchange_seconds(total.exchange_seconds() + s.exchange_seconds());
    total.set_data_seconds(total.data_seconds() + s.data_seconds());
    waiting += WaitsOf(process.rank, facts.progress).waiting_seconds;
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
  if (!facts.weights_sha256.empty()) {
    summary["weights_sha256"] = facts.weights_sha256;
  }
  return absl::StrCat(summary.dump(2), "\n");
}

}  // namespace tributary

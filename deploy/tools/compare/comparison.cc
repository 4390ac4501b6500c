#include "deploy/tools/compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/json.h"
#include "common/job/exchange_traits.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Non-finite numbers are null in JSON.
absl::optional<double> Number(const Json& object, const char* key) {
  if (!object.is_object()) return absl::nullopt;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return absl::nullopt;
  return found->get<double>();
}

Json FieldOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? Json() : *found;
}

std::string Word(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>()
                                                     : std::string();
}

ProcessFigures ReadProcess(const Json& process, double steps) {
  ProcessFigures figures;
  figures.role = Word(process, "role");
  figures.rank = static_cast<int>(Number(process, "rank").value_or(0));
  figures.bytes_sent = Number(process, "bytes_sent").value_or(0) / steps;
  figures.bytes_received =
      Number(process, "bytes_received").value_or(0) / steps;
  figures.peak_memory_bytes = Number(process, "peak_memory_bytes").value_or(0);
  figures.cpu_seconds = Number(process, "cpu_seconds").value_or(0);
  return figures;
}

// Returns true if all servers and workers were threads of one process.
bool IsOneProcess(const Json& processes) {
  const auto same = [&processes](const Json& process) {
    return FieldOf(process, "pid") == FieldOf(processes[0], "pid") &&
           Word(process, "host") == Word(processes[0], "host");
  };
  return processes.size() > 1 && Number(processes[0], "pid").has_value() &&
         std::all_of(processes.begin(), processes.end(), same);
}

// Divides what one process has used among the devices of its workers. Device 0
// is the primary, which the servers belong to. Memory is divided in proportion
// to the accounts of servers and workers. A worker has used the CPU time of its
// micro-batches and the time of its evaluations, and the servers the rest.
std::vector<ProcessFigures> DivideAmongDevices(const Json& processes,
                                               double steps) {
  const ProcessFigures whole = ReadProcess(processes[0], steps);
  std::vector<ProcessFigures> devices(1);
  double accounts = 0;
  double other_cpu = 0;
  for (const Json& process : processes) {
    const bool worker = Word(process, "role") == "worker";
    const ProcessFigures own = ReadProcess(process, steps);
    const auto rank = static_cast<size_t>(worker ? own.rank : 0);
    if (devices.size() <= rank) devices.resize(rank + 1);
    ProcessFigures& device = devices[rank];
    device.bytes_sent += own.bytes_sent;
    device.bytes_received += own.bytes_received;
    const Json account = FieldOf(process, "memory_account");
    for (const auto& [name, bytes] : account.items()) {
      if (name == "program" || !bytes.is_number()) continue;
      device.peak_memory_bytes += bytes.get<double>();
      accounts += bytes.get<double>();
    }
    if (!worker || rank == 0) continue;
    device.cpu_seconds = Number(process, "leaf_cpu_seconds").value_or(0) +
                         Number(process, "evaluation_seconds").value_or(0);
    other_cpu += device.cpu_seconds;
  }
  for (size_t i = 0; i < devices.size(); ++i) {
    devices[i].role = "device";
    devices[i].rank = static_cast<int>(i);
    if (accounts > 0) {
      devices[i].peak_memory_bytes *= whole.peak_memory_bytes / accounts;
    }
  }
  devices[0].cpu_seconds = std::max(0.0, whole.cpu_seconds - other_cpu);
  return devices;
}

// Averages over the workers, in milliseconds per step of the job. In
// asynchronous mode, where each worker takes steps of its own, the steps of all
// workers count.
class WorkerMean {
 public:
  WorkerMean(const Json& processes, double steps) : steps_(steps) {
    for (const Json& process : processes) {
      if (Word(process, "role") == "worker") workers_.push_back(&process);
    }
  }

  double Milliseconds(const char* key) const {
    double sum = 0;
    for (const Json* worker : workers_) sum += Number(*worker, key).value_or(0);
    const auto count =
        std::max<double>(1, static_cast<double>(workers_.size()));
    return 1e3 * sum / count / steps_;
  }

 private:
  const double steps_;
  std::vector<const Json*> workers_;
};

}  // namespace

std::string ProcessFigures::Name() const {
  return absl::StrCat(role, " ", rank);
}

double RunFigures::total_memory() const {
  double sum = 0;
  for (const ProcessFigures& process : processes) {
    sum += process.peak_memory_bytes;
  }
  return sum;
}

double RunFigures::total_bytes_sent() const {
  double sum = 0;
  for (const ProcessFigures& process : processes) sum += process.bytes_sent;
  return sum;
}

absl::StatusOr<RunFigures> ReadRunFigures(const Json& json,
                                          absl::Span<const LossPoint> losses) {
  const double steps = Number(json, "steps").value_or(0);
  const Json processes = FieldOf(json, "processes");
  if (steps < 1 || !processes.is_array()) {
    return absl::DataLossError("summary.json has no complete steps");
  }
  RunFigures figures;
  figures.steps = static_cast<int64_t>(steps);
  figures.parameters =
      static_cast<int64_t>(Number(json, "parameters").value_or(0));
  figures.seconds = Number(json, "seconds").value_or(0);
  figures.step_ms = 1e3 * figures.seconds / steps;
  // The line of the last step precedes the evaluation.
  if (!losses.empty() && losses.back().step > 0 &&
      std::isfinite(losses.back().seconds)) {
    figures.step_ms =
        1e3 * losses.back().seconds / static_cast<double>(losses.back().step);
  }
  const WorkerMean mean(processes, steps);
  figures.compute_ms = mean.Milliseconds("compute_seconds");
  figures.data_ms = mean.Milliseconds("data_seconds");
  figures.exchange_ms = mean.Milliseconds("exchange_seconds");
  if (Word(json, "exchange") != "all_reduce") {
    figures.waiting_ms =
        std::min(mean.Milliseconds("waiting_seconds"), figures.exchange_ms);
    figures.exchange_ms -= *figures.waiting_ms;
  }
  figures.other_ms =
      std::max(0.0, figures.step_ms - figures.compute_ms - figures.data_ms -
                        figures.exchange_ms - figures.waiting_ms.value_or(0));
  figures.predicted_ms =
      Number(FieldOf(json, "predicted"), "step_milliseconds");
  figures.final_loss = Number(json, "final_loss").value_or(kNan);
  const Json evaluation = FieldOf(json, "evaluation");
  figures.evaluation_loss = Number(evaluation, "loss");
  figures.evaluation_accuracy = Number(evaluation, "accuracy");
  figures.weights_sha256 = Word(json, "weights_sha256");
  if (IsOneProcess(processes)) {
    figures.processes = DivideAmongDevices(processes, steps);
    return figures;
  }
  for (const Json& process : processes) {
    if (!process.is_object()) continue;
    figures.processes.push_back(ReadProcess(process, steps));
  }
  std::sort(figures.processes.begin(), figures.processes.end(),
            [](const ProcessFigures& a, const ProcessFigures& b) {
              return std::tie(a.role, a.rank) < std::tie(b.role, b.rank);
            });
  return figures;
}

std::vector<LossPoint> ReadLosses(absl::string_view metrics) {
  std::vector<LossPoint> losses;
  for (const absl::string_view line : absl::StrSplit(metrics, '\n')) {
    const Json json = ParseOrderedJson(line);
    if (!json.is_object() || !json.contains("loss")) continue;
    const absl::optional<double> step = Number(json, "step");
    if (!step.has_value()) continue;
    losses.push_back({static_cast<int64_t>(*step),
                      Number(json, "seconds").value_or(kNan),
                      Number(json, "loss").value_or(kNan)});
  }
  return losses;
}

std::string TransportName(const JobSpec& job, bool on_gpus) {
  const ExchangeSpec& exchange = job.exchange();
  if (ResolveExchange(job).workers_exchange_directly) {
    const AllReduceSpec::Backend backend = exchange.all_reduce().backend();
    if (backend == AllReduceSpec::NCCL) return "NCCL";
    // The server selects one of them when it knows all workers' GPUs.
    return on_gpus && backend != AllReduceSpec::GLOO ? "NCCL, else TCP" : "TCP";
  }
  switch (exchange.transport()) {
    case ExchangeSpec::WIRE:
      return "TCP";
    case ExchangeSpec::UNIX_SOCKET:
      return "Unix sockets";
    default:
      return exchange.has_compression() ? "Unix sockets" : "shared memory";
  }
}

std::vector<std::vector<std::string>> RunsOfSameWeights(
    const Comparison& comparison) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const ComparedRun& run : comparison.runs) {
    if (!run.figures.has_value() || run.figures->weights_sha256.empty()) {
      continue;
    }
    const std::string& digest = run.figures->weights_sha256;
    const auto found =
        std::find_if(groups.begin(), groups.end(),
                     [&](const auto& group) { return group.first == digest; });
    if (found == groups.end()) {
      groups.push_back({digest, {run.name}});
    } else {
      found->second.push_back(run.name);
    }
  }
  std::vector<std::vector<std::string>> shared;
  for (auto& [digest, names] : groups) {
    if (names.size() > 1) shared.push_back(std::move(names));
  }
  return shared;
}

std::string WithCommas(int64_t count) {
  std::string text = absl::StrCat(count);
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(at, 1, ',');
  }
  return text;
}

const char* StateName(ComparedRun::State state) {
  switch (state) {
    case ComparedRun::State::kDone:
      return "done";
    case ComparedRun::State::kFailed:
      return "failed";
    case ComparedRun::State::kStopped:
      return "stopped";
    case ComparedRun::State::kWaiting:
      break;
  }
  return "not run";
}

const ComparedRun* FindDone(const Comparison& comparison,
                            absl::string_view name) {
  for (const ComparedRun& run : comparison.runs) {
    if (run.figures.has_value() && run.name == name) return &run;
  }
  return nullptr;
}

}  // namespace tributary

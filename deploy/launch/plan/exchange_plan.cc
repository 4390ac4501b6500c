#include "deploy/launch/plan/exchange_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "common/job/rounds.h"
#include "common/numerics/half.h"
#include "common/plan/bandwidth.h"
#include "common/plan/exchange_traffic.h"
#include "common/plan/memory_account.h"
#include "common/plan/payload_bytes.h"
#include "common/plan/row_memory.h"
#include "common/plan/row_traffic.h"
#include "common/text/counted.h"
#include "deploy/launch/plan/plan_units.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

// The advice omits changes that save a smaller fraction of a step than this.
constexpr double kWorthTelling = 0.05;

std::vector<int> Hosts(int first, int count) {
  std::vector<int> hosts(count);
  std::iota(hosts.begin(), hosts.end(), first);
  return hosts;
}

// Returns the timing of the worker with the most micro-batches, whose compute
// threads compute them one after another. The first micro-batch requests the
// weights and the last one completes the gradients. In rounds of several steps
// the gradients are complete after the last step; in asynchronous jobs that
// clip, when their norm is known.
ComputeProfile WorkerProfile(const PlanInputs& inputs, int64_t steps) {
  ComputeProfile profile = inputs.micro_batch;
  const double micro_batch = profile.seconds * static_cast<double>(steps);
  if (steps > 1 || (ResolveExchange(inputs.job).whole_batches &&
                    inputs.job.clip_norm() > 0)) {
    std::fill(profile.ready_at.begin(), profile.ready_at.end(), micro_batch);
  }
  const double before = (Turns(inputs) - 1) * micro_batch;
  for (double& at : profile.ready_at) at += before;
  profile.seconds = before + micro_batch;
  return profile;
}

// Predicts the exchange for each placement. Until PerStep, times and bytes are
// those of a round, or of all steps that are computed concurrently.
class Planner {
 public:
  explicit Planner(const PlanInputs& inputs)
      : inputs_(inputs),
        job_(JobOfRounds(inputs.job)),
        traits_(ResolveExchange(inputs.job)),
        at_once_(StepsAtOnce(inputs.job, inputs.workers)),
        steps_(StepsPerRound(inputs.job) * at_once_),
        profile_(WorkerProfile(inputs, StepsPerRound(inputs.job))) {
    load_.contributions =
        traits_.whole_batches
            ? std::vector<int>(inputs.workers, 1)
            : ContributionsByWorker(
                  static_cast<int>(inputs.job.batch().micro_batches()),
                  inputs.workers);
    for (const int64_t elements : inputs.chunk_elements) {
      const auto payload = static_cast<double>(
          ExpectedPayloadBytes(inputs.job.exchange(), elements));
      // Every worker receives the weights of each step, with sharded weights
      // once for forward and once for backward.
      const int times = inputs.job.parallel().sharded_weights() ? 2 : 1;
      load_.chunks.push_back(
          {BytesOnWire(payload), times * at_once_ * BytesOnWire(payload)});
      bytes_.up += load_.chunks.back().up;
      bytes_.down += load_.chunks.back().down;
      elements_ += static_cast<double>(elements);
      payload_ += payload;
    }
    if (!inputs.job.has_sparse()) return;
    const ChunkMessages rows = RowTraffic(inputs.job);
    load_.rows = {at_once_ * BytesOnWire(rows.up) / Computing(),
                  at_once_ * BytesOnWire(rows.down) / Computing()};
  }

  // Computing time of one step.
  double compute_seconds() const {
    return profile_.seconds / static_cast<double>(steps_);
  }
  double payload() const { return payload_ / static_cast<double>(steps_); }

  PlannedExchange Servers(const std::string& key, const std::string& name,
                          const ProcessHosts& placement) const {
    const std::vector<HostTraffic> traffic = TrafficByHost(load_, placement);
    const int host = BusiestHost(traffic);
    const bool on_worker = placement.server_hosts[0] < inputs_.workers;
    // Every host runs a part of the servers, and sends gradients and weights in
    // both directions.
    const bool shared = on_worker && placement.server_hosts.size() > 1;
    PlannedExchange row;
    row.key = key;
    row.name = name;
    row.bytes_out = traffic[host].out();
    row.bytes_in = traffic[host].in();
    for (const HostTraffic& t : traffic) row.hosts.push_back({t.out(), t.in()});
    row.busiest = shared                               ? "every host's link"
                  : on_worker                          ? "worker 0's link"
                  : host < inputs_.workers             ? "the workers' links"
                  : placement.server_hosts.size() == 1 ? "the server's link"
                                                       : "the servers' links";
    ExchangeTimes times;
    times.shared_link = shared;
    if (shared) {
      const bool out = row.bytes_out >= row.bytes_in;
      times.up = LinkSeconds(out ? traffic[host].up_out : traffic[host].up_in);
      times.down =
          LinkSeconds(out ? traffic[host].down_out : traffic[host].down_in);
      row.link_seconds = times.up + times.down;
    } else {
      for (const HostTraffic& t : traffic) {
        times.up = std::max(times.up, LinkSeconds(t.up_out + t.up_in));
        times.down = std::max(times.down, LinkSeconds(t.down_out + t.down_in));
      }
      row.link_seconds = std::max(times.up, times.down);
    }
    times.pass = PassSeconds(LargestShare(placement.server_hosts.size()));
    Finish(profile_, times, "a server's pass over memory", &row);
    if (on_worker) {
      row.step_seconds =
          std::max(row.step_seconds, CoreSeconds(/*workers=*/1, times.pass));
    }
    return PerStep(row);
  }

  // All-reduce synchronizes in every step, regardless of the consistency mode.
  // It sends uncompressed numbers, because the places of sparse gradients
  // differ between workers.
  PlannedExchange AllReduce() const {
    PlannedExchange row;
    row.key = "all_reduce";
    row.name = "all-reduce";
    row.bytes_out = row.bytes_in =
        AllReduceLaw(inputs_.workers) *
        BytesOnWire(elements_ * static_cast<double>(WireDtypeBytes(
                                    inputs_.job.exchange().wire_dtype())));
    row.hosts.assign(inputs_.workers, {row.bytes_out, row.bytes_in});
    row.busiest = "every host's link";
    ExchangeTimes times;
    times.up = row.link_seconds = LinkSeconds(row.bytes_out);
    times.pass = elements_ * inputs_.update_seconds_per_element /
                 (traits_.workers_shard_optimizer ? inputs_.workers : 1);
    times.update_waits_for_all = true;
    PlanInputs synchronous = inputs_;
    synchronous.job.mutable_exchange()
        ->mutable_parameter_server()
        ->clear_consistency();
    Finish(WorkerProfile(synchronous, /*steps=*/1), times,
           "the optimizer in every worker", &row);
    return row;
  }

  PlannedExchange OneHost() const {
    PlannedExchange row;
    row.key = "one_host";
    row.name = absl::StrCat("all on one host, ", inputs_.cores, " cores");
    row.busiest = "no link";
    const double threads = inputs_.workers * inputs_.threads;
    const ComputeProfile profile =
        Stretch(profile_, std::max(1.0, threads / inputs_.cores));
    const bool all_reduce = !traits_.servers_update;
    const ExchangeTimes times = all_reduce ? BetweenWorkers() : WithServers();
    row.pass_seconds = times.pass;
    // Half of the CPU time of the exchange.
    row.link_seconds =
        (times.up + times.down) * (all_reduce ? inputs_.workers / 2.0 : 1);
    row.step_seconds = std::max(Step(profile, times),
                                CoreSeconds(inputs_.workers, times.pass) +
                                    2 * row.link_seconds / inputs_.cores);
    row.bottleneck = std::max(row.link_seconds, times.pass) <= profile.seconds
                         ? "computing"
                     : row.link_seconds > times.pass ? "sockets"
                     : all_reduce ? "the workers' pass over memory"
                                  : "the servers' pass over memory";
    return PerStep(row);
  }

 private:
  // On one host, every byte occupies a core at the sender and then one at the
  // receiver.
  ExchangeTimes WithServers() const {
    ExchangeTimes times;
    times.shared_link = true;
    times.pass = PassSeconds(elements_);
    const double sockets = inputs_.socket_seconds_per_byte / 2;
    times.up =
        (Contributions() * bytes_.up + Computing() * load_.rows.up) * sockets;
    times.down =
        (inputs_.workers * bytes_.down + Computing() * load_.rows.down) *
        sockets;
    return times;
  }

  // Each worker sends, receives and adds its share of the chunks. The optimizer
  // of every chunk runs in all workers, or in one of them with shard_optimizer.
  ExchangeTimes BetweenWorkers() const {
    ExchangeTimes times;
    times.shared_link = true;
    const double optimizers =
        traits_.workers_shard_optimizer ? 1 : inputs_.workers;
    times.pass =
        PassSeconds(elements_) +
        (optimizers - 1) * elements_ * inputs_.update_seconds_per_element;
    const double both_ends =
        AllReduceLaw(inputs_.workers) * inputs_.socket_seconds_per_byte / 2;
    times.up = Contributions() / inputs_.workers * bytes_.up * both_ends;
    times.down = bytes_.down * both_ends;
    return times;
  }

  // Number of contributions of all workers per chunk.
  double Contributions() const {
    return std::accumulate(load_.contributions.begin(),
                           load_.contributions.end(), 0.0);
  }

  // Number of workers that compute.
  double Computing() const {
    return static_cast<double>(
        load_.contributions.size() -
        std::count(load_.contributions.begin(), load_.contributions.end(), 0));
  }

  // Update time of a server with this many elements.
  double PassSeconds(double elements) const {
    return elements * (traits_.whole_batches
                           ? at_once_ * inputs_.update_seconds_per_element
                           : inputs_.pass_seconds_per_element);
  }

  double LinkSeconds(double bytes) const {
    return bytes / (inputs_.bandwidth * kPayloadShare);
  }

  // Computing time of a host in a step, divided evenly among its cores: work
  // that overlaps needs a core of its own.
  double CoreSeconds(int workers, double pass) const {
    return (workers * inputs_.threads * profile_.seconds +
            inputs_.server_threads * pass) /
           inputs_.cores;
  }

  // Number of elements of the largest shard.
  double LargestShare(int64_t servers) const {
    std::vector<double> shares(servers);
    for (size_t chunk = 0; chunk < inputs_.chunk_elements.size(); ++chunk) {
      shares[chunk % servers] +=
          static_cast<double>(inputs_.chunk_elements[chunk]);
    }
    return *std::max_element(shares.begin(), shares.end());
  }

  double Step(const ComputeProfile& profile, ExchangeTimes times) const {
    if (job_.clip_norm() > 0 && !traits_.whole_batches) {
      times.update_waits_for_all = true;
    }
    return StepSeconds(profile, inputs_.chunk_elements, times);
  }

  void Finish(const ComputeProfile& profile, const ExchangeTimes& times,
              const char* pass, PlannedExchange* row) const {
    row->pass_seconds = times.pass;
    row->step_seconds = Step(profile, times);
    row->bottleneck = row->link_seconds >= std::max(times.pass, profile.seconds)
                          ? row->busiest
                      : times.pass >= profile.seconds ? pass
                                                      : "computing";
  }

  PlannedExchange PerStep(PlannedExchange row) const {
    for (double* value : {&row.bytes_out, &row.bytes_in, &row.link_seconds,
                          &row.pass_seconds, &row.step_seconds}) {
      *value /= static_cast<double>(steps_);
    }
    for (PlannedHost& host : row.hosts) {
      host.bytes_out /= static_cast<double>(steps_);
      host.bytes_in /= static_cast<double>(steps_);
    }
    return row;
  }

  const PlanInputs& inputs_;
  const JobSpec job_;  // What the servers run.
  const ExchangeTraits traits_;
  const int at_once_;
  const int64_t steps_;
  const ComputeProfile profile_;
  StepMessages load_;
  ChunkMessages bytes_;  // Total over all chunks.
  double elements_ = 0;
  double payload_ = 0;
};

// The placement of the primary in PyTorch's DataParallel.
ProcessHosts PrimaryHost(const PlanInputs& inputs) {
  return {Hosts(0, inputs.workers), {0}};
}

ProcessHosts OneServer(const PlanInputs& inputs) {
  return {Hosts(0, inputs.workers), {inputs.workers}};
}

ProcessHosts OwnHosts(const PlanInputs& inputs) {
  return {Hosts(0, inputs.workers), Hosts(inputs.workers, inputs.servers)};
}

ProcessHosts WorkerHosts(const PlanInputs& inputs) {
  return {Hosts(0, inputs.workers), Hosts(0, inputs.workers)};
}

double StepWith(const PlanInputs& inputs, const ProcessHosts& placement) {
  return Planner(inputs).Servers("", "", placement).step_seconds;
}

// Lists changes to the requested placement that shorten the step, each in
// addition to the previous ones.
std::string Advice(PlanInputs inputs) {
  ProcessHosts placement = OwnHosts(inputs);
  double step = StepWith(inputs, placement);
  const double least = Planner(inputs).compute_seconds();
  if (step <= least * (1 + kWorthTelling)) {
    return "Computation hides the exchange: more workers or threads shorten "
           "the step, a faster network does not.";
  }
  std::vector<std::string> ways;
  const auto consider = [&](const std::string& way, const PlanInputs& changed,
                            const ProcessHosts& moved) {
    const double shorter = StepWith(changed, moved);
    if (shorter > step * (1 - kWorthTelling)) return;
    ways.push_back(absl::StrCat(way, ": ", PlanMilliseconds(shorter), " ms"));
    step = shorter;
    inputs = changed;
    placement = moved;
  };
  consider(absl::StrCat("a server on each worker's host (--servers ",
                        inputs.workers, ")"),
           inputs, WorkerHosts(inputs));
  const ExchangeSpec& exchange = inputs.job.exchange();
  if (!exchange.has_compression() &&
      exchange.wire_dtype() == ExchangeSpec::FLOAT32) {
    PlanInputs halves = inputs;
    halves.job.mutable_exchange()->set_wire_dtype(ExchangeSpec::BFLOAT16);
    consider("exchange.wire_dtype: BFLOAT16", halves, placement);
  }
  if (ways.empty()) {
    return "A faster network, or fewer and larger steps, would reduce the "
           "training time.";
  }
  return absl::StrCat("To get faster: ", absl::StrJoin(ways, "; with "), ".");
}

// Returns a line on the memory of each process of a kind.
std::string MemoryLine(const char* kind, const MemoryAccount& account) {
  return absl::StrCat("memory of each ", kind, ": ",
                      FormatMemory(TotalBytes(account)), " (",
                      DescribeMemory(account), ")\n");
}

nlohmann::ordered_json MemoryJson(const MemoryAccount& account) {
  nlohmann::ordered_json json;
  for (const auto& [name, bytes] : MemoryParts(account)) json[name] = bytes;
  return json;
}

}  // namespace

int64_t StepsPerRound(const JobSpec& job) {
  return Rounds(job, std::numeric_limits<int64_t>::max()).StepsAfter(1);
}

int StepsAtOnce(const JobSpec& job, int workers) {
  return ResolveExchange(job).whole_batches ? workers : 1;
}

int Turns(const PlanInputs& inputs) {
  const int64_t micro_batches = inputs.job.batch().micro_batches();
  const int64_t sharing =
      inputs.workers / StepsAtOnce(inputs.job, inputs.workers);
  const int64_t most = (micro_batches + sharing - 1) / sharing;
  return static_cast<int>((most + inputs.threads - 1) / inputs.threads);
}

absl::StatusOr<ExchangePlan> PlanExchange(const PlanInputs& inputs) {
  const int64_t micro_batches = inputs.job.batch().micro_batches();
  if (inputs.workers > micro_batches &&
      !ResolveExchange(inputs.job).whole_batches) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--workers ", inputs.workers, ": the batch has ",
        Counted(micro_batches, "micro-batch", "micro-batches"), ", so at most ",
        Counted(micro_batches, "worker"),
        " can compute; raise batch.micro_batches (a power of two that divides "
        "batch.global) or lower --workers"));
  }
  const Planner planner(inputs);
  ExchangePlan plan;
  plan.compute_seconds = planner.compute_seconds();
  plan.bytes = planner.payload();
  plan.rows.push_back(planner.Servers(
      "primary_host", "server on worker 0's host", PrimaryHost(inputs)));
  plan.rows.push_back(planner.Servers("one_server", "one server, its own host",
                                      OneServer(inputs)));
  if (inputs.servers > 1) {
    plan.rows.push_back(planner.Servers(
        "own_hosts",
        absl::StrCat(inputs.servers, " servers, hosts of their own"),
        OwnHosts(inputs)));
  }
  plan.rows.push_back(planner.Servers(
      "worker_hosts", "a server on each worker's host", WorkerHosts(inputs)));
  plan.rows.push_back(planner.AllReduce());
  plan.rows.push_back(planner.OneHost());
  plan.advice = Advice(inputs);
  return plan;
}

PlannedExchange PlanOneHost(const PlanInputs& inputs) {
  return Planner(inputs).OneHost();
}

std::string FormatPlan(const PlanInputs& inputs, const ExchangePlan& plan) {
  std::string text = absl::StrFormat(
      "%s: %s parameters in %s; each worker sends and receives %s per step\n"
      "%s with %s%s, links of %s; computing takes %s ms per step\n\n",
      inputs.job.name(), absl::StrFormat("%.4g M", 1e-6 * inputs.parameters),
      Counted(inputs.chunk_elements.size(), "chunk"), PlanBytes(plan.bytes),
      Counted(inputs.workers, "worker"), Counted(inputs.threads, "thread"),
      inputs.workers == 1 ? "" : " each", FormatBandwidth(inputs.bandwidth),
      PlanMilliseconds(plan.compute_seconds));
  absl::StrAppendFormat(&text, "%-31s %9s %9s %9s %9s  %s\n", "", "out", "in",
                        "link ms", "step ms", "bottleneck");
  for (const PlannedExchange& row : plan.rows) {
    absl::StrAppendFormat(&text, "%-31s %9s %9s %9s %9s  %s\n", row.name,
                          PlanBytes(row.bytes_out), PlanBytes(row.bytes_in),
                          PlanMilliseconds(row.link_seconds),
                          PlanMilliseconds(row.step_seconds), row.bottleneck);
  }
  absl::StrAppend(&text, "\n", plan.advice, "\n\n",
                  MemoryLine("server", inputs.server_memory),
                  MemoryLine("worker", inputs.worker_memory),
                  DescribeTables(inputs.job.sparse()),
                  DescribeRowTraffic(inputs.job));
  return text;
}

nlohmann::ordered_json PlanJson(const PlanInputs& inputs,
                                const ExchangePlan& plan) {
  nlohmann::ordered_json json = {
      {"job", inputs.job.name()},
      {"parameters", inputs.parameters},
      {"chunks", inputs.chunk_elements.size()},
      {"workers", inputs.workers},
      {"servers", inputs.servers},
      {"threads", inputs.threads},
      {"bandwidth_bytes_per_second", inputs.bandwidth},
      {"payload_share", kPayloadShare},
      {"bytes", plan.bytes},
      {"compute_ms", 1e3 * plan.compute_seconds},
  };
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const PlannedExchange& row : plan.rows) {
    rows.push_back({{"key", row.key},
                    {"name", row.name},
                    {"busiest", row.busiest},
                    {"bytes_out", row.bytes_out},
                    {"bytes_in", row.bytes_in},
                    {"link_ms", 1e3 * row.link_seconds},
                    {"pass_ms", 1e3 * row.pass_seconds},
                    {"step_ms", 1e3 * row.step_seconds},
                    {"bottleneck", row.bottleneck}});
  }
  json["placements"] = std::move(rows);
  json["server_memory"] = MemoryJson(inputs.server_memory);
  json["worker_memory"] = MemoryJson(inputs.worker_memory);
  json["advice"] = plan.advice;
  return json;
}

}  // namespace tributary

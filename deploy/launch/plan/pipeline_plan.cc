#include "deploy/launch/plan/pipeline_plan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "common/pipeline/pipeline_schedule.h"
#include "common/pipeline/pipeline_timeline.h"
#include "common/plan/exchange_traffic.h"
#include "common/plan/payload_bytes.h"
#include "common/plan/step_model.h"
#include "common/text/counted.h"
#include "deploy/launch/plan/exchange_plan.h"
#include "deploy/launch/plan/plan_units.h"

namespace tributary {
namespace {

// Time for which a worker is busy sending a byte to another stage: it copies it
// to shared memory, or passes it to gRPC. As measured with transfers of 0.3 MB.
constexpr double kSendSecondsPerByte = 0.6e-9;

// Bytes of gradients to servers (up) and of weights from them (down) that pass
// one link; in an all-reduce, to and from other workers.
struct LinkBytes {
  double up = 0;
  double down = 0;
};

PlannedExchange RowOf(const ExchangePlan& plan, const std::string& key) {
  for (const PlannedExchange& row : plan.rows) {
    if (row.key == key) return row;
  }
  return {};
}

class PipelinePlanner {
 public:
  explicit PipelinePlanner(const PipelineInputs& inputs)
      : inputs_(inputs),
        exchange_(inputs.exchange),
        traits_(ResolveExchange(exchange_.job)),
        shape_(PipelineShapeOf(exchange_.job, exchange_.workers)),
        stages_(shape_.stages),
        steps_(static_cast<double>(StepsPerRound(exchange_.job))) {
    for (const int64_t elements : exchange_.chunk_elements) {
      message_bytes_.push_back(BytesOnWire(static_cast<double>(
          ExpectedPayloadBytes(exchange_.job.exchange(), elements))));
    }
  }

  absl::StatusOr<PipelinePlan> Plan() const {
    PipelinePlan plan;
    plan.shape = shape_;
    BalanceInput input = inputs_.stages.input;
    input.micro_batches = shape_.micro_batches;
    TRIBUTARY_ASSIGN_OR_RETURN(StageBalance balance,
                               EvaluateSplit(input, inputs_.stages.cuts));
    plan.stages = std::move(balance.stages);
    plan.rows = {traits_.servers_update ? OwnHosts(plan) : AllReduce(plan),
                 OneHost(plan)};
    if (inputs_.whole.has_value()) {
      TRIBUTARY_ASSIGN_OR_RETURN(const ExchangePlan whole,
                                 PlanExchange(*inputs_.whole));
      for (PlannedPipeline& row : plan.rows) {
        row.whole_step_seconds = RowOf(whole, row.key).step_seconds;
      }
    }
    plan.advice = Advice(plan);
    return plan;
  }

 private:
  PlannedPipeline OwnHosts(const PipelinePlan& plan) const {
    const bool one = exchange_.servers == 1;
    PlannedPipeline row;
    row.key = one ? "one_server" : "own_hosts";
    row.name =
        one ? "one server, its own host"
            : absl::StrCat(exchange_.servers, " servers, hosts of their own");
    const LinkBytes workers = BusiestWorker();
    const LinkBytes servers = BusiestServer();
    ExchangeTimes times;
    times.up = LinkSeconds(std::max(workers.up, servers.up));
    times.down = LinkSeconds(std::max(workers.down, servers.down));
    row.link_seconds = std::max(times.up, times.down) / steps_;
    times.pass = PassSecondsOf(LargestShard());
    const double bandwidth = exchange_.bandwidth * kPayloadShare;
    Fill(plan, bandwidth, times, &row);
    if (row.link_seconds > std::max(row.pass_seconds, row.pipeline_seconds)) {
      row.bottleneck = std::max(workers.up, workers.down) >
                               std::max(servers.up, servers.down)
                           ? "the workers' links to the servers"
                       : one ? "the server's link"
                             : "the servers' links";
    }
    return row;
  }

  // A host for each worker. The workers of a stage add up their gradients, and
  // update their weights.
  PlannedPipeline AllReduce(const PipelinePlan& plan) const {
    PlannedPipeline row;
    row.key = "all_reduce";
    row.name = "all-reduce, a host per worker";
    const LinkBytes worker = BusiestMember();
    ExchangeTimes times;
    times.shared_link = true;
    times.up = LinkSeconds(worker.up);
    times.down = LinkSeconds(worker.down);
    row.link_seconds = times.up + times.down;
    int64_t elements = 0;
    for (const StageSplit::Stage& stage : inputs_.split.stages) {
      elements = std::max(elements, ElementsOf(stage.chunks));
    }
    const double update = exchange_.update_seconds_per_element;
    times.pass =
        (PassSecondsOf(elements) + (Optimizers() - 1) * elements * update) /
        shape_.replicas;
    Fill(plan, exchange_.bandwidth * kPayloadShare, times, &row);
    if (row.link_seconds > std::max(row.pass_seconds, row.pipeline_seconds)) {
      row.bottleneck = "the workers' links";
    }
    return row;
  }

  PlannedPipeline OneHost(const PipelinePlan& plan) const {
    PlannedPipeline row;
    row.key = "one_host";
    row.name = absl::StrCat("all on one host, ", exchange_.cores, " cores");
    ExchangeTimes times;
    const int64_t elements =
        ElementsOf({0, static_cast<int64_t>(message_bytes_.size())});
    times.pass = PassSecondsOf(elements);
    if (!traits_.servers_update) {
      times.pass +=
          (Optimizers() - 1) * elements * exchange_.update_seconds_per_element;
    }
    Fill(plan, std::numeric_limits<double>::infinity(), times, &row);
    double busy = exchange_.server_threads * row.pass_seconds;
    for (int s = 0; s < stages_; ++s) {
      busy += static_cast<double>(exchange_.job.batch().micro_batches()) *
              BusySeconds(plan, s).total();
    }
    if (busy / exchange_.cores > row.step_seconds) {
      row.step_seconds = busy / exchange_.cores;
      row.bottleneck = "the cores";
    }
    return row;
  }

  // Sets everything but the names and the time on the link.
  void Fill(const PipelinePlan& plan, double bytes_per_second,
            ExchangeTimes times, PlannedPipeline* row) const {
    PipelineStep step;
    step.schedule = shape_.schedule;
    step.micro_batches = shape_.micro_batches;
    double slowest = 0;
    for (int s = 0; s < stages_; ++s) {
      step.stages.push_back(BusySeconds(plan, s));
      if (step.stages.back().total() > slowest) {
        slowest = step.stages.back().total();
        row->bottleneck = absl::StrCat("stage ", s);
      }
      if (s + 1 == stages_) break;
      const double values = static_cast<double>(plan.stages[s].boundary_bytes);
      // If B and W are one pass, it waits for the parts.
      const double parts =
          TraitsOf(shape_.schedule).splits_backward ? 0 : PartBytes(s + 1);
      // Weights that the other stage has updated.
      const double weights = LocalSteps() ? PartBytes(s + 1) : 0;
      step.boundaries.push_back(
          {BytesOnWire(values + weights) / bytes_per_second,
           BytesOnWire(values + parts) / bytes_per_second,
           /*latency=*/0});
      if (step.boundaries.back().backward > slowest) {
        slowest = step.boundaries.back().backward;
        row->bottleneck = absl::StrCat("link of stages ", s, " and ", s + 1);
      }
    }
    const PipelineTimeline timeline = SimulatePipeline(step);
    times.update_waits_for_all =
        exchange_.job.clip_norm() > 0 || traits_.updates_await_trust_ratios;
    row->pass_seconds = times.pass / steps_;
    row->pipeline_seconds = timeline.seconds;
    row->bubble = timeline.bubble;
    row->step_seconds = StepSeconds(ProfileOf(plan, timeline),
                                    exchange_.chunk_elements, times) /
                        steps_;
    if (row->pass_seconds > timeline.seconds) {
      row->bottleneck = traits_.servers_update
                            ? "a server's pass over memory"
                            : "the workers' pass over memory";
    }
  }

  // Returns the bytes of the parts of gradients that the stage sends to earlier
  // ones for each micro-batch; see StageSplit::Part.
  double PartBytes(int stage) const {
    double bytes = 0;
    for (const StageSplit::Part& part : inputs_.split.parts) {
      if (part.from == stage) bytes += static_cast<double>(part.bytes());
    }
    return bytes;
  }

  // Returns the time that a micro-batch occupies the stage's worker.
  PassSeconds BusySeconds(const PipelinePlan& plan, int stage) const {
    const auto send = [&plan](int boundary) {
      return kSendSecondsPerByte *
             static_cast<double>(plan.stages[boundary].boundary_bytes);
    };
    PassSeconds seconds = plan.stages[stage].seconds;
    seconds.forward += send(stage);  // The last stage sends no bytes.
    if (stage > 0) seconds.backward_input += send(stage - 1);
    seconds.backward_weights += kSendSecondsPerByte * PartBytes(stage);
    return seconds;
  }

  bool LocalSteps() const { return traits_.local_sgd; }

  // The pipeline as one worker that computes for as long as it does. A stage
  // needs the weights of its layers one after another during its first forward
  // pass. Its last pass for weights completes their gradients in reverse order.
  // In mode local_steps, a worker computes the steps of a round, from all of
  // the weights.
  ComputeProfile ProfileOf(const PipelinePlan& plan,
                           const PipelineTimeline& timeline) const {
    ComputeProfile profile;
    profile.seconds = steps_ * timeline.seconds;
    const size_t chunks = exchange_.chunk_elements.size();
    profile.needed_at.assign(chunks, 0);
    profile.ready_at.assign(chunks, profile.seconds);
    if (LocalSteps()) return profile;
    for (int s = 0; s < stages_; ++s) {
      const StageSplit::Range& range = inputs_.split.stages[s].chunks;
      const PassSeconds& seconds = plan.stages[s].seconds;
      const std::vector<TimedOperation>& done = timeline.stages[s].operations;
      for (int64_t chunk = range.begin; chunk < range.end; ++chunk) {
        const double share = static_cast<double>(chunk - range.begin) /
                             static_cast<double>(range.size());
        profile.needed_at[chunk] = done.front().begin + share * seconds.forward;
        profile.ready_at[chunk] =
            done.back().end - share * seconds.backward_weights;
      }
    }
    return profile;
  }

  // Contributions of the replica with the most, for each of its chunks.
  int MostContributions() const {
    const std::vector<int> counts = Contributions();
    return *std::max_element(counts.begin(), counts.end());
  }
  std::vector<int> Contributions() const {
    return ContributionsByWorker(
        static_cast<int>(exchange_.job.batch().micro_batches()),
        shape_.replicas);
  }

  double BytesOf(const StageSplit::Range& chunks) const {
    return std::accumulate(message_bytes_.begin() + chunks.begin,
                           message_bytes_.begin() + chunks.end, 0.0);
  }

  LinkBytes BusiestWorker() const {
    LinkBytes busiest;
    for (const StageSplit::Stage& stage : inputs_.split.stages) {
      double down = 0;
      for (const StageSplit::Range& read : stage.read_chunks) {
        down += BytesOf(read);
      }
      busiest.up =
          std::max(busiest.up, MostContributions() * BytesOf(stage.chunks));
      busiest.down = std::max(busiest.down, down);
    }
    return busiest;
  }

  // The contributors of a chunk, one in each replica, reduce their chunks in
  // turn, and send the weights to all workers that read them.
  LinkBytes BusiestMember() const {
    LinkBytes busiest;
    for (const StageSplit::Stage& stage : inputs_.split.stages) {
      const double reduced = BytesOf(stage.chunks) / shape_.replicas;
      double read = 0;
      for (const StageSplit::Range& chunks : stage.read_chunks) {
        read += BytesOf(chunks);
      }
      busiest.up = std::max(
          busiest.up, MostContributions() * (BytesOf(stage.chunks) - reduced));
      busiest.down = std::max(busiest.down, read - reduced);
    }
    return busiest;
  }

  // Number of workers in which the optimizer of a chunk runs.
  double Optimizers() const {
    return traits_.workers_shard_optimizer ? 1 : shape_.replicas;
  }

  // Servers own the chunks in turn.
  LinkBytes BusiestServer() const {
    const std::vector<int> contributions = Contributions();
    const double all =
        std::accumulate(contributions.begin(), contributions.end(), 0.0);
    std::vector<LinkBytes> servers(exchange_.servers);
    for (size_t chunk = 0; chunk < message_bytes_.size(); ++chunk) {
      servers[chunk % servers.size()].up += all * message_bytes_[chunk];
    }
    for (const StageSplit::Stage& stage : inputs_.split.stages) {
      for (const StageSplit::Range& read : stage.read_chunks) {
        for (int64_t chunk = read.begin; chunk < read.end; ++chunk) {
          servers[chunk % servers.size()].down +=
              shape_.replicas * message_bytes_[chunk];
        }
      }
    }
    LinkBytes busiest;
    for (const LinkBytes& server : servers) {
      busiest.up = std::max(busiest.up, server.up);
      busiest.down = std::max(busiest.down, server.down);
    }
    return busiest;
  }

  int64_t ElementsOf(const StageSplit::Range& chunks) const {
    return std::accumulate(exchange_.chunk_elements.begin() + chunks.begin,
                           exchange_.chunk_elements.begin() + chunks.end,
                           int64_t{0});
  }

  int64_t LargestShard() const {
    std::vector<int64_t> shards(exchange_.servers);
    for (size_t chunk = 0; chunk < message_bytes_.size(); ++chunk) {
      shards[chunk % shards.size()] += exchange_.chunk_elements[chunk];
    }
    return *std::max_element(shards.begin(), shards.end());
  }

  double LinkSeconds(double bytes) const {
    return bytes / (exchange_.bandwidth * kPayloadShare);
  }
  double PassSecondsOf(int64_t elements) const {
    return static_cast<double>(elements) * exchange_.pass_seconds_per_element;
  }

  std::string Advice(const PipelinePlan& plan) const {
    const PlannedPipeline& row = plan.rows[0];
    if (!row.whole_step_seconds.has_value()) {
      return absl::StrCat("Without the pipeline, a worker needs ",
                          PlanBytes(static_cast<double>(inputs_.whole_bytes)),
                          ", but ",
                          PlanBytes(static_cast<double>(inputs_.free_bytes)),
                          " are free here: the model does not fit.");
    }
    const double whole = *row.whole_step_seconds;
    const std::string start = absl::StrCat(
        Counted(inputs_.whole->workers, "worker"), " with ",
        Counted(inputs_.whole->threads, "thread"), " without the pipeline ",
        inputs_.whole->workers == 1 ? "takes " : "take ",
        PlanMilliseconds(whole), " ms");
    return whole < row.step_seconds
               ? absl::StrFormat("%s, %.2f times as fast: leave it out.", start,
                                 row.step_seconds / whole)
               : absl::StrFormat("%s: the pipeline is %.2f times as fast.",
                                 start, whole / row.step_seconds);
  }

  const PipelineInputs& inputs_;
  const PlanInputs& exchange_;
  const ExchangeTraits traits_;
  const PipelineShape shape_;
  const int stages_;
  const double steps_;                 // Between two exchanges with servers.
  std::vector<double> message_bytes_;  // Indexed by chunk.
};

}  // namespace

absl::StatusOr<PipelinePlan> PlanPipeline(const PipelineInputs& inputs) {
  TRIBUTARY_RETURN_IF_ERROR(
      CheckPipelineWorkers(inputs.exchange.job, inputs.exchange.workers));
  return PipelinePlanner(inputs).Plan();
}

}  // namespace tributary

// Predicts, for each way to place the servers of a job, the bytes through the
// busiest link, the time of a step, and what holds it up.
#ifndef TRIBUTARY_DEPLOY_PLAN_EXCHANGE_PLAN_H_
#define TRIBUTARY_DEPLOY_PLAN_EXCHANGE_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/step_model.h"
#include "nlohmann/json.hpp"
#include "proto/job.pb.h"

namespace tributary {

// Of the bits that a link carries, the part that is payload: TCP over IPv4 in
// Ethernet frames of 1,500 bytes carries 1,448 of 1,538 bytes on the wire.
inline constexpr double kPayloadShare = 1448.0 / 1538.0;

// What a plan is made from. Times are in seconds.
struct PlanInputs {
  JobSpec job;  // Resolved.
  int64_t parameters = 0;
  std::vector<int64_t> chunk_elements;  // By chunk.
  int workers = 2;
  int servers = 1;
  int threads = 1;       // Of each worker.
  double bandwidth = 0;  // Of every host's link, each way; bytes per second.
  ComputeProfile micro_batch;  // Of one leaf on one of `threads` busy threads.
  // A server's sum and update of one element, with all of its `server_threads`
  // at work and one contribution from each worker.
  double pass_seconds_per_element = 0;
  // The same of an optimizer that has one whole gradient: that of servers in
  // asynchronous mode, and of all-reduce, where `server_threads` are those that
  // do so in all workers together.
  double update_seconds_per_element = 0;
  int server_threads = 1;
  // Of every host; processes on one host share them.
  int cores = 1;
  // Where all run on one host: processor time of a byte that goes through a
  // socket there; 0: through shared memory.
  double socket_seconds_per_byte = 0;
};

// What goes through one host's link in a step.
struct PlannedHost {
  double bytes_out = 0;
  double bytes_in = 0;
};

// One way to place the servers. Every host's link is `bandwidth` each way.
struct PlannedExchange {
  // For scripts: "primary_host" (the way of PyTorch's DataParallel),
  // "one_server", "own_hosts", ...
  std::string key;
  std::string name;  // For people.
  // All figures are those of one step of the job: where the exchange happens
  // once in a round of several, their parts.
  // The busiest link's.
  double bytes_out = 0;
  double bytes_in = 0;
  std::string busiest;      // "the server's link".
  double link_seconds = 0;  // That link's busier direction is busy so long.
  double pass_seconds = 0;  // The busiest server's pass over memory.
  double step_seconds = 0;
  std::string bottleneck;  // What is busy longest.
  // Those of the workers, by rank, then those that only servers have; none
  // where all is on one host.
  std::vector<PlannedHost> hosts;
};

struct ExchangePlan {
  double compute_seconds = 0;  // Of a worker's step.
  // Payload of all chunks of one contribution, which is as large as one
  // version's, by step.
  double bytes = 0;
  std::vector<PlannedExchange> rows;
  std::string advice;  // How to get faster, in one line.
};

// Of the job, in one exchange.
int64_t StepsPerRound(const JobSpec& job);

// Steps that are computed side by side: in asynchronous mode each worker takes
// one for itself, in the others all take part in each.
int StepsAtOnce(const JobSpec& job, int workers);

// How many leaves each of a worker's threads computes in a step, one behind the
// other; of the worker that has most.
int Turns(const PlanInputs& inputs);

// InvalidArgument, naming flag and field, for more workers than leaves.
//
// What the prediction assumes: hosts with full-duplex links that are equally
// fast and carry nothing else; workers equally fast; processes on one host have
// their share of its cores; no latency; and cores to spare for gRPC and the
// kernel, which need about one for each 1.2 GB/s.
absl::StatusOr<ExchangePlan> PlanExchange(const PlanInputs& inputs);

// The row "one host" alone, where workers may be more than leaves.
PlannedExchange PlanOneHost(const PlanInputs& inputs);

// A table of at most 100 columns.
std::string FormatPlan(const PlanInputs& inputs, const ExchangePlan& plan);

nlohmann::ordered_json PlanJson(const PlanInputs& inputs,
                                const ExchangePlan& plan);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_PLAN_EXCHANGE_PLAN_H_

// Predicts, for each placement of a job's servers, the bytes through the
// busiest link, the time of a step, and its bottleneck.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_PLAN_EXCHANGE_PLAN_H_
#define TRIBUTARY_DEPLOY_LAUNCH_PLAN_EXCHANGE_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/step_model.h"
#include "nlohmann/json_fwd.hpp"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// The inputs of PlanExchange, which predicts the time of a step. Times are in
// seconds.
struct PlanInputs {
  JobSpec job;  // The resolved job.
  int64_t parameters = 0;
  std::vector<int64_t> chunk_elements;  // Indexed by chunk.
  int workers = 2;
  int servers = 1;
  int threads = 1;  // Compute threads of each worker.
  // Bandwidth of every host's link in each direction, in bytes per second.
  double bandwidth = 0;
  // Profile of one micro-batch on one compute thread, while all `threads`
  // compute threads are busy.
  ComputeProfile micro_batch;
  // Time per element in which a server adds one gradient from each worker and
  // updates the weights, with all `server_threads` threads of the server busy.
  double pass_seconds_per_element = 0;
  // Time per element to update the weights from a complete gradient. Used for
  // servers in asynchronous mode and for all-reduce. For all-reduce,
  // `server_threads` is the number of threads that update, in all workers
  // together.
  double update_seconds_per_element = 0;
  int server_threads = 1;
  // Number of cores of each host, which the processes on the host share.
  int cores = 1;
  // Memory of each server and of each worker, on hosts of their own.
  MemoryAccount server_memory;
  MemoryAccount worker_memory;
  // For a job on one host: CPU time per byte that is sent through a local
  // socket; 0 if the processes use shared memory.
  double socket_seconds_per_byte = 0;
};

// Bytes that one host sends and receives through its network link in a step.
struct PlannedHost {
  double bytes_out = 0;
  double bytes_in = 0;
};

// The prediction for one placement of the servers, or for an all-reduce. Every
// host's link has PlanInputs::bandwidth in each direction.
struct PlannedExchange {
  // Identifier, for scripts, of the placement: "primary_host" (as in PyTorch's
  // DataParallel), "one_server", "own_hosts", ...
  std::string key;
  std::string name;  // Name for users.
  // Bytes through the busiest host's link. All figures of a plan are per step
  // of the job: if workers exchange gradients only once in several steps, or
  // compute several steps concurrently, the bytes and times of an exchange are
  // divided by the number of steps.
  double bytes_out = 0;
  double bytes_in = 0;
  std::string busiest;  // Example: "the server's link".
  // Time for which the busiest link is busy, in its busier direction. If all
  // processes run on one host, there is no link; this field is then the CPU
  // time for sending all bytes through local sockets. Receiving the bytes takes
  // the same CPU time again.
  double link_seconds = 0;
  // Time in which the busiest server adds the gradients and updates the
  // weights. With all-reduce, the time of the optimizer in one worker.
  double pass_seconds = 0;
  double step_seconds = 0;
  std::string bottleneck;  // The resource that is busy longest.
  // The hosts of the workers, by rank, followed by the hosts that run only
  // servers. Empty if all processes run on one host.
  std::vector<PlannedHost> hosts;
};

struct ExchangePlan {
  double compute_seconds = 0;  // Computing time of a worker in a step.
  // Payload bytes of one gradient of the whole model, per step. The weights of
  // the whole model have the same number of bytes.
  double bytes = 0;
  std::vector<PlannedExchange> rows;
  std::string advice;  // One line on how to shorten the step.
};

// Returns the number of steps between two exchanges of gradients, which is
// above 1 only in consistency mode local_steps.
int64_t StepsPerRound(const JobSpec& job);

// Returns the number of steps that are computed concurrently: one per worker in
// asynchronous mode, otherwise one, in which all workers take part.
int StepsAtOnce(const JobSpec& job, int workers);

// Returns the number of micro-batches that a compute thread processes one after
// another in a step, for the worker with the most micro-batches.
int Turns(const PlanInputs& inputs);

// Predicts the time of a step for each placement of the servers, and for an
// all-reduce. Returns InvalidArgument, naming the flag and the field of the
// job, if there are more workers than micro-batches. This does not apply to
// mode `asynchronous`, in which a worker computes whole batches.
//
// Assumes full-duplex links of equal bandwidth without other traffic; equally
// fast workers; equal shares of a host's cores for its processes; no latency;
// and enough idle cores for gRPC and the kernel: about one core for each 1.2
// GB/s that a host sends and receives.
absl::StatusOr<ExchangePlan> PlanExchange(const PlanInputs& inputs);

// Returns only the prediction for running all processes on one host (the row
// "one host" of a plan). Allows more workers than micro-batches.
PlannedExchange PlanOneHost(const PlanInputs& inputs);

// Formats the plan as a table, with lines of at most 100 columns.
std::string FormatPlan(const PlanInputs& inputs, const ExchangePlan& plan);

// Returns the figures of the plan as JSON, for scripts.
nlohmann::ordered_json PlanJson(const PlanInputs& inputs,
                                const ExchangePlan& plan);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_PLAN_EXCHANGE_PLAN_H_

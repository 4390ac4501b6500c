// Predicts the step time of a local run from its measured computing time.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_PLAN_RUN_PREDICTION_H_
#define TRIBUTARY_DEPLOY_LAUNCH_PLAN_RUN_PREDICTION_H_

#include "absl/types/optional.h"
#include "deploy/launch/plan/exchange_plan.h"
#include "deploy/launch/plan/local_timing.h"
#include "nlohmann/json_fwd.hpp"
#include "proto/job.pb.h"

namespace tributary {

// The job and the processes of a run on this machine.
struct LocalRun {
  JobSpec job;  // The resolved job.
  int workers = 1;
  int servers = 1;
  int threads = 1;         // Compute threads of each worker.
  int server_threads = 1;  // Threads of each server.
  int cores = 1;
};

// Returns the number of threads, in all processes together, that update the
// weights: of the servers or, for an all-reduce, of the workers. Pass it to
// TimePass.
int UpdatingThreads(const LocalRun& run);

// Returns the inputs of PlanExchange for a completed run. The computing time is
// the time per step of the worker in `summary` (the run's summary.json) that
// computed longest. `pass` is the time to add gradients and update weights;
// TimePass must have measured it with UpdatingThreads(run) threads. Assumes
// that all chunks have equal sizes. The caller sets bandwidth and
// socket_seconds_per_byte. Returns nullopt for a run without complete steps.
absl::optional<PlanInputs> InputsFromRun(const LocalRun& run,
                                         const nlohmann::ordered_json& summary,
                                         const PassTiming& pass);

// Returns the field "predicted" of summary.json: the predicted
// step_milliseconds and its components. Returns nullopt for a run without
// complete steps.
//
// Uses InputsFromRun and PlanOneHost, so it predicts the cost of the exchange
// for the measured computing time. For a pipeline, adds the time for which its
// schedule keeps a stage idle, as if all stages took as long as the slowest.
// Assumes that no other load runs on the machine, and that a byte through gRPC
// or Gloo costs as much as on the machines of tests/bench/RESULTS.md. On those
// machines, the predictions are within a factor of 1.5 of the measured median
// for steps longer than a millisecond.
absl::optional<nlohmann::ordered_json> PredictLocalRun(
    const LocalRun& run, const nlohmann::ordered_json& summary,
    const PassTiming& pass);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_PLAN_RUN_PREDICTION_H_

// Says, beside what a local run has measured, what a step of it should have
// taken.
#ifndef TRIBUTARY_DEPLOY_PLAN_RUN_PREDICTION_H_
#define TRIBUTARY_DEPLOY_PLAN_RUN_PREDICTION_H_

#include "absl/types/optional.h"
#include "deploy/plan/exchange_plan.h"
#include "deploy/plan/local_timing.h"
#include "nlohmann/json_fwd.hpp"
#include "proto/job.pb.h"

namespace tributary {

// How the processes of a run were spread over this machine.
struct LocalRun {
  JobSpec job;  // Resolved.
  int workers = 1;
  int servers = 1;
  int threads = 1;         // Of each worker.
  int server_threads = 1;  // Of each server.
  int cores = 1;
};

// Threads that add up gradients and run the optimizer, in all processes
// together: those to time a pass with.
int UpdatingThreads(const LocalRun& run);

// What a plan is made from, of a run that has been: with the time that the
// slowest worker computed in a step, as `summary` has it, and `pass`, timed
// with UpdatingThreads. Chunks of one size hold all parameters. Bandwidth and
// socket_seconds_per_byte are the caller's. None for a run without complete
// steps.
absl::optional<PlanInputs> InputsFromRun(const LocalRun& run,
                                         const nlohmann::ordered_json& summary,
                                         const PassTiming& pass);

// The field "predicted" of summary.json: step_milliseconds, and what that is
// made of. None for a run without complete steps.
//
// It is made from InputsFromRun; the model is that of the row "one host" in
// exchange_plan.h. So it says what the exchange should cost, given what
// computing cost. It assumes that nothing else runs on the machine, and that a
// byte through gRPC or Gloo costs what it does on the machines of
// tests/bench/RESULTS.md. With them it lies within a factor of 1.5 of the
// median, for steps above a millisecond.
absl::optional<nlohmann::ordered_json> PredictLocalRun(
    const LocalRun& run, const nlohmann::ordered_json& summary,
    const PassTiming& pass);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_PLAN_RUN_PREDICTION_H_

// Predicts the step time of a job that has run on this machine.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_TRAIN_STEP_PREDICTION_H_
#define TRIBUTARY_DEPLOY_LAUNCH_TRAIN_STEP_PREDICTION_H_

#include "absl/status/status.h"
#include "deploy/launch/job/job_launch.h"
#include "deploy/launch/plan/run_prediction.h"

namespace tributary {

// Returns the job and the numbers of processes and threads of `launch`, for
// PredictLocalRun.
LocalRun RunOf(const JobLaunch& launch);

// Adds the step time that PredictLocalRun computes to the run's summary.json,
// so that users can compare it with the measured step time. Call this after the
// job's end. Has no effect if `server_device` is not "cpu" or the run has no
// complete steps. Returns an error if summary.json cannot be read or written.
absl::Status AddPrediction(const JobLaunch& launch);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_TRAIN_STEP_PREDICTION_H_

// Evaluates trained models that a user's program computes.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_TRAIN_PROGRAM_EVALUATION_H_
#define TRIBUTARY_DEPLOY_LAUNCH_TRAIN_PROGRAM_EVALUATION_H_

#include <string>

#include "absl/status/statusor.h"
#include "deploy/launch/train/inference.h"
#include "proto/job.pb.h"

namespace tributary {

// Returns the folder of the run to which `path`, the folder of a run or of one
// of its checkpoints, belongs.
std::string RunOf(const std::string& path);

// An evaluation by the program that has trained the model.
struct ProgramEvaluation {
  JobSpec job;  // The run's job, perhaps with other data; see ResolveJob.
  // The folder of a run or of a checkpoint, with the manifest of the model.
  std::string path;
  // A safetensors file with the weights.
  std::string weights;
  std::string worker_command;
  std::string worker_folder;  // See JobLaunch.
  std::string device = "auto";
  int threads = 1;
};

// Starts a server, which holds the weights and has no step left, and one worker
// of the program, which evaluates them; waits until both have ended. Changes no
// file of the run; the processes write to a temporary folder. Receives signals
// (see SignalQueue), so it may be called once, before other threads start.
// Returns NotFound if the run has no model, FailedPrecondition if the job has
// no held-out data, the error with which the worker or the server ends, and the
// system's error if the temporary folder cannot be written.
absl::StatusOr<ModelEvaluation> EvaluateByProgram(
    const ProgramEvaluation& evaluation);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_TRAIN_PROGRAM_EVALUATION_H_

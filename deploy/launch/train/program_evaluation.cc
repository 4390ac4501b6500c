#include "deploy/launch/train/program_evaluation.h"

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/os/file.h"
#include "common/os/file_system.h"
#include "common/os/temporary_directory.h"
#include "deploy/flags/run_files.h"
#include "deploy/flags/signal_queue.h"
#include "deploy/launch/job/job_launch.h"
#include "deploy/launch/job/progress_display.h"
#include "nlohmann/json.hpp"
#include "server/checkpoint/final_folder.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/verified_file.h"

namespace tributary {
namespace {

namespace fs = std::filesystem;

// Returns a job that has no step left after `steps` steps, and whose optimizer
// has no state: only the evaluation remains.
JobSpec OnlyEvaluation(JobSpec job, int64_t steps) {
  job.clear_epochs();
  job.set_steps(steps);
  job.clear_schedule();
  job.clear_clip_norm();
  job.clear_exchange();
  job.clear_recovery();
  job.clear_stop_when();
  job.clear_checkpoint();
  job.mutable_checkpoint()->set_every_steps(0);
  job.clear_output();
  job.mutable_evaluation()->clear_disabled();
  job.clear_optimizer();
  job.mutable_optimizer()->mutable_sgd()->set_learning_rate(1);
  job.mutable_optimizer()->mutable_sgd()->set_momentum(0);
  return ResolveJob(std::move(job));
}

// Writes a checkpoint with the weights in the file `model`, whose evaluation is
// still due. `manifest` is that of a checkpoint of the same model.
absl::Status WriteStart(const std::string& model, const std::string& folder,
                        const JobSpec& job, CheckpointManifest manifest) {
  TRIBUTARY_RETURN_IF_ERROR(FileSystem::Posix()->MakeFolder(folder));
  std::error_code error;
  const std::string copy = absl::StrCat(folder, "/", kFinalModelName);
  fs::copy_file(model, copy, error);
  if (error) return FileError(error.value(), "cannot copy", model);
  manifest.set_job(PrintJob(job));
  // With consistency mode local_steps, it counted rounds.
  manifest.set_version(manifest.step());
  manifest.set_servers(1);
  manifest.set_complete(false);
  manifest.clear_state();
  manifest.clear_job_state();
  manifest.clear_file();
  TRIBUTARY_ASSIGN_OR_RETURN(*manifest.add_file(),
                             DescribeFile(folder, kFinalModelName));
  return WriteManifest(folder, manifest, FileSystem::Posix());
}

absl::StatusOr<ModelEvaluation> ReadEvaluation(const std::string& output,
                                               const JobSpec& job) {
  TRIBUTARY_ASSIGN_OR_RETURN(const nlohmann::ordered_json summary,
                             ReadRunSummary(output));
  const auto found = summary.find("evaluation");
  if (found == summary.end() || !found->contains("loss")) {
    return absl::InternalError("the program has ended without an evaluation");
  }
  const auto number = [&found](const char* name) {
    const auto value = found->find(name);
    return value != found->end() && value->is_number()
               ? value->get<double>()
               : std::numeric_limits<double>::quiet_NaN();
  };
  ModelEvaluation evaluation;
  evaluation.samples = job.data().external().evaluation_samples();
  evaluation.loss = number("loss");
  evaluation.classes = found->contains("accuracy");
  if (evaluation.classes) evaluation.accuracy = number("accuracy");
  return evaluation;
}

}  // namespace

std::string RunOf(const std::string& path) {
  // A checkpoint is RUN/best or RUN/checkpoints/step-NNNNNNNN.
  for (const char* up : {"", "/..", "/../.."}) {
    std::string run = absl::StrCat(path, up);
    if (PathExists(absl::StrCat(run, "/job.textproto"))) return run;
  }
  return path;
}

absl::StatusOr<ModelEvaluation> EvaluateByProgram(
    const ProgramEvaluation& evaluation) {
  if (evaluation.job.data().external().evaluation_samples() == 0) {
    return absl::FailedPreconditionError(
        "the job has no held-out data: its data.external.evaluation_samples "
        "is 0");
  }
  const bool is_run =
      !PathExists(absl::StrCat(evaluation.path, "/", kManifestName));
  TRIBUTARY_ASSIGN_OR_RETURN(
      const CheckpointManifest manifest,
      ReadManifest(is_run ? FinalFolder(evaluation.path) : evaluation.path));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<TemporaryDirectory> folder,
                             TemporaryDirectory::Create());
  JobLaunch launch;
  launch.job = OnlyEvaluation(evaluation.job, manifest.step());
  launch.output = absl::StrCat(folder->path(), "/run");
  launch.resume = absl::StrCat(folder->path(), "/start");
  launch.worker_command = evaluation.worker_command;
  launch.worker_folder = evaluation.worker_folder;
  launch.worker_device = evaluation.device;
  launch.threads = evaluation.threads;
  TRIBUTARY_RETURN_IF_ERROR(
      WriteStart(evaluation.weights, launch.resume, launch.job, manifest));
  TRIBUTARY_RETURN_IF_ERROR(WriteJobFolder(launch));
  SignalQueue signals(/*with_children=*/true);
  ProgressDisplay display(STDERR_FILENO, ProgressStyle::kNone,
                          /*log_every_steps=*/1);
  const JobEnd end = RunJob(launch, &signals, &display);
  if (!end.status.ok()) {
    folder->Keep();  // The message names its logs.
    return end.status;
  }
  return ReadEvaluation(launch.output, launch.job);
}

}  // namespace tributary

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/types/optional.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/os/process.h"
#include "deploy/commands/subcommands.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/device_flag.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/job_source.h"
#include "deploy/flags/run_files.h"
#include "deploy/launch/train/inference.h"
#include "deploy/launch/train/launch_record.h"
#include "deploy/launch/train/program_evaluation.h"
#include "deploy/launch/train/run_folder.h"
#include "nlohmann/json.hpp"
#include "worker/device/factory/device_factory.h"

namespace tributary {
namespace {

struct EvaluateFlags {
  std::string run;
  std::string weights;
  std::vector<std::string> sets;
  std::string worker_command;
  std::string device;
  int64_t threads = 0;
  bool average = false;
  bool json = false;
};

absl::StatusOr<InitialWeightsSpec> WeightsOf(const EvaluateFlags& flags,
                                             const RunFolder& run) {
  InitialWeightsSpec weights;
  weights.set_path(flags.weights.empty() ? run.path() : flags.weights);
  if (flags.average) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        *weights.mutable_path(),
        FinalWeightsPath(run.path(), FinalWeights::kAverage));
  }
  return weights;
}

// Returns the file with the weights for a program.
absl::StatusOr<std::string> WeightsFile(const EvaluateFlags& flags,
                                        const RunFolder& run) {
  if (flags.weights.empty()) {
    return FinalWeightsPath(run.path(), flags.average ? FinalWeights::kAverage
                                                      : FinalWeights::kLast);
  }
  return std::filesystem::is_directory(flags.weights)
             ? FinalWeightsPath(flags.weights, FinalWeights::kLast)
             : flags.weights;
}

// Returns how to start the program that computes the model of `job`; nullopt
// if this program does, or if the program is unknown.
absl::StatusOr<absl::optional<ProgramEvaluation>> FindProgram(
    const EvaluateFlags& flags, const JobSpec& job) {
  absl::optional<ProgramEvaluation> found;
  if (!job.model().has_external() || !job.data().has_external()) return found;
  ProgramEvaluation program;
  program.job = job;
  program.path = flags.run;
  program.worker_command = flags.worker_command;
  if (program.worker_command.empty()) {
    const std::string run = RunOf(flags.run);
    TRIBUTARY_ASSIGN_OR_RETURN(const absl::optional<LaunchRecord> record,
                               ReadLaunchRecord(run));
    if (!record.has_value() || record->worker_command.empty()) return found;
    TRIBUTARY_RETURN_IF_ERROR(CheckWorkingFolder(run, *record));
    program.worker_command = record->worker_command;
    program.worker_folder = record->working_folder;
  }
  found = std::move(program);
  return found;
}

absl::Status Run(const EvaluateFlags& flags, const TrainingSources& sources) {
  if (flags.average && !flags.weights.empty()) {
    return absl::InvalidArgumentError(
        "--average and --weights exclude each other; --weights also accepts "
        "the file final/average.safetensors of a run");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const RunFolder run, RunFolder::Open(flags.run));
  TRIBUTARY_ASSIGN_OR_RETURN(JobSpec job, ReadJobOfRun(run.path(), flags.sets));
  std::string remark;
  TRIBUTARY_ASSIGN_OR_RETURN(
      const DeviceName device,
      ChooseDevice(flags.device, /*place=*/0, MachineGpus(), &remark));
  if (!remark.empty()) std::fprintf(stderr, "tributary: %s\n", remark.c_str());
  const int64_t threads =
      flags.threads > 0
          ? flags.threads
          : std::min<int64_t>(UsableCores(), job.batch().micro_batches());
  TRIBUTARY_ASSIGN_OR_RETURN(const absl::optional<ProgramEvaluation> program,
                             FindProgram(flags, job));
  ModelEvaluation evaluation;
  if (program.has_value()) {
    ProgramEvaluation request = *program;
    TRIBUTARY_ASSIGN_OR_RETURN(request.weights, WeightsFile(flags, run));
    request.device = FormatDeviceName(device);
    request.threads = static_cast<int>(threads);
    TRIBUTARY_ASSIGN_OR_RETURN(evaluation, EvaluateByProgram(request));
  } else {
    TRIBUTARY_ASSIGN_OR_RETURN(*job.mutable_model()->mutable_initial_weights(),
                               WeightsOf(flags, run));
    TRIBUTARY_ASSIGN_OR_RETURN(evaluation,
                               EvaluateModel(
                                   job, run.path(), static_cast<int>(threads),
                                   [&device](Precision precision) {
                                     return CreateDevice(device, precision);
                                   },
                                   sources));
  }
  const bool text = PredictsTokens(job);
  if (flags.json) {
    nlohmann::ordered_json json = {{"samples", evaluation.samples},
                                   {"loss", evaluation.loss}};
    if (evaluation.classes) json["accuracy"] = evaluation.accuracy;
    if (evaluation.auc.has_value()) json["auc"] = *evaluation.auc;
    if (text) json["perplexity"] = std::exp(evaluation.loss);
    std::printf("%s\n", json.dump().c_str());
    return absl::OkStatus();
  }
  absl::PrintF("loss %.4f", evaluation.loss);
  if (evaluation.classes)
    absl::PrintF(", accuracy %.2f %%", 100 * evaluation.accuracy);
  if (evaluation.auc.has_value()) absl::PrintF(", AUC %.4f", *evaluation.auc);
  if (text) absl::PrintF(", perplexity %.3f", std::exp(evaluation.loss));
  absl::PrintF(" (%d %s)\n", evaluation.samples, text ? "tokens" : "samples");
  return absl::OkStatus();
}

}  // namespace

int RunEvaluateCommand(const std::vector<std::string>& arguments,
                       const Environment& environment,
                       const TrainingSources& sources) {
  EvaluateFlags flags;
  CommandLine line(
      "evaluate", "RUN",
      "Evaluates the final model of the run in the folder RUN, or a checkpoint "
      "such as RUN/best, on the held-out data of its job, or on other data.",
      {{"evaluate runs/mnist-20240501-120000", "Print loss and accuracy."},
       {"evaluate RUN --set data.csv.test=new.csv", "Use other data."},
       {"evaluate RUN --weights gpt2 --json",
        "Evaluate other weights, such as a folder of Hugging Face."}});
  line.SetOperand(/*required=*/true, &flags.run);
  line.AddText("weights", "PATH",
               "Weights to evaluate in place of RUN's: a safetensors file, the "
               "folder of a run, or a folder in the format of Hugging Face.",
               &flags.weights);
  line.AddSwitch("average",
                 "Evaluate the moving average of the weights, which the run "
                 "keeps with optimizer.average_decay.",
                 &flags.average);
  line.AddText("worker-command", "COMMAND",
               "For a model that is computed by a program, such as a Python "
               "program: the command that starts a worker, as for `tributary "
               "train`. Default: the command with which the run was started.",
               &flags.worker_command);
  AddSetFlag(&line, "data.csv.test=FILE", &flags.sets);
  AddDeviceFlag(&line, "auto", &flags.device);
  line.AddInteger("threads",
                  "Compute threads. They do not change the result. Default: "
                  "this machine's cores.",
                  1, 1024, &flags.threads);
  line.AddSwitch("json", "Print one JSON object.", &flags.json);
  if (const auto code = line.ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  const absl::Status status = Run(flags, sources);
  return status.ok() ? kExitDone : ReportFileError(status);
}

}  // namespace tributary

#include "deploy/commands/commands.h"

#include <cstdio>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/text/nearest.h"
#include "deploy/commands/devices_command.h"
#include "deploy/commands/server_command.h"
#include "deploy/commands/subcommands.h"
#include "deploy/commands/version.h"
#include "deploy/flags/exit_code.h"
#include "deploy/launch/slurm/node_agent.h"
#include "deploy/tools/bench/bench_command.h"
#include "worker/training/training_sources.h"

namespace tributary {
namespace {

std::string Help() {
  std::string help =
      "Trains neural networks with a parameter server: servers hold the\n"
      "weights, workers compute gradients.\n\n"
      "Examples:\n"
      "  tributary train\n"
      "      Train a small GPT on texts of this machine with two workers.\n"
      "  tributary train examples/mnist.textproto --workers 4\n"
      "      Train the job in a file.\n"
      "  tributary sample runs/licenses-20240501-120000 --prompt 'You may'\n"
      "      Generate text with a trained model.\n\n"
      "Usage: tributary COMMAND [arguments]\n\n"
      "Commands:\n";
  for (const Command& command : Commands()) {
    absl::StrAppendFormat(&help, "  %-11s %s\n", command.name, command.summary);
  }
  absl::StrAppend(&help, "\n'tributary COMMAND --help' describes a command.\n");
  return help;
}

int ReportUnknown(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : Commands()) names.push_back(command.name);
  return ReportError(absl::InvalidArgumentError(absl::StrCat(
      absl::StartsWith(name, "-") ? "unknown flag " : "unknown command ", name,
      DidYouMean(name, names), " (see 'tributary --help')")));
}

// Adapts a command that creates no models of jobs in this process.
std::function<int(const std::vector<std::string>&, const Environment&,
                  const TrainingSources&)>
WithoutSources(int (*run)(const std::vector<std::string>&,
                          const Environment&)) {
  return [run](const std::vector<std::string>& arguments,
               const Environment& environment,
               const TrainingSources&) { return run(arguments, environment); };
}

}  // namespace

const std::vector<Command>& Commands() {
  static const auto* const commands = new std::vector<Command>{
      {"train", "train a job with servers and workers on this machine",
       &RunTrainCommand},
      {"server", "run one server of a job on a cluster",
       WithoutSources(&RunServerCommand)},
      {"worker", "run one worker of a job on a cluster", &RunWorkerCommand},
      {"status", "show the status of a job and its processes",
       WithoutSources(&RunStatusCommand)},
      {"runs", "list and compare runs", WithoutSources(&RunRunsCommand)},
      {"dashboard", "show runs in a browser",
       WithoutSources(&RunDashboardCommand)},
      {"sample", "generate text with a trained model",
       WithoutSources(&RunSampleCommand)},
      {"evaluate", "evaluate a trained model", &RunEvaluateCommand},
      {"predict", "compute the outputs of a trained model", &RunPredictCommand},
      {"export", "write a trained model for other programs",
       WithoutSources(&RunExportCommand)},
      {"tokenize", "convert text files to token ids",
       WithoutSources(&RunTokenizeCommand)},
      {"checkpoint", "list, verify and compare checkpoints",
       WithoutSources(&RunCheckpointCommand)},
      {"sparse", "look into the tables of a trained model",
       WithoutSources(&RunSparseCommand)},
      {"compare", "train a job with every exchange and compare them",
       &RunCompareCommand},
      {"tune", "search for the best values of a job's fields", &RunTuneCommand},
      {"devices", "list the devices of this machine and their processes",
       WithoutSources(&RunDevicesCommand)},
      {"plan", "predict the step time of a job on a cluster", &RunPlanCommand},
      {"conformance", "check a worker in any language against the protocol",
       &RunConformanceCommand},
      {"certs", "create certificates for tests",
       WithoutSources(&RunCertsCommand)},
      {"bench", "measure Tributary on this machine", &RunBenchCommand},
  };
  return *commands;
}

int RunCommandLine(const std::vector<std::string>& arguments,
                   const Environment& environment,
                   const TrainingSources& sources) {
  if (arguments.empty()) {
    std::fputs(Help().c_str(), stderr);
    return kExitUsage;
  }
  const std::string& name = arguments[0];
  if (name == "help" && arguments.size() > 1) {
    return RunCommandLine({arguments[1], "--help"}, environment, sources);
  }
  if (name == "--help" || name == "-h" || name == "help") {
    std::fputs(Help().c_str(), stdout);
    return kExitDone;
  }
  if (name == "--version" || name == "version") {
    std::fputs(VersionText().c_str(), stdout);
    return kExitDone;
  }
  // Not one of Commands(), because only `train` starts it.
  if (name == "node-agent") return RunNodeAgent(environment);
  for (const Command& command : Commands()) {
    if (name == command.name) {
      return command.run({arguments.begin() + 1, arguments.end()}, environment,
                         sources);
    }
  }
  return ReportUnknown(name);
}

}  // namespace tributary

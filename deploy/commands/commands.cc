#include "deploy/commands/commands.h"

#include <cstdio>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/nearest.h"
#include "common/transport/channel.h"
#include "deploy/commands/bench_command.h"
#include "deploy/commands/certs_command.h"
#include "deploy/commands/checkpoint_command.h"
#include "deploy/commands/compare_command.h"
#include "deploy/commands/devices_command.h"
#include "deploy/commands/plan_command.h"
#include "deploy/commands/sample_command.h"
#include "deploy/commands/server_command.h"
#include "deploy/commands/status_command.h"
#include "deploy/commands/train_command.h"
#include "deploy/commands/worker_command.h"
#include "deploy/flags/exit_code.h"

namespace tributary {
namespace {

constexpr char kVersion[] = "0.1.0";

std::string Help() {
  std::string help =
      "Trains neural networks on many processes: servers hold the weights,\n"
      "workers compute.\n\n"
      "Examples:\n"
      "  tributary train\n"
      "      Train a small GPT on texts of this machine, with two workers.\n"
      "  tributary train examples/mnist.textproto --workers 4\n"
      "      Train what a job file describes.\n"
      "  tributary sample runs/licenses-20240501-120000 --prompt 'You may'\n"
      "      Write text with a trained model.\n\n"
      "Usage: tributary COMMAND [arguments]\n\n"
      "Commands:\n";
  for (const Command& command : Commands()) {
    absl::StrAppendFormat(&help, "  %-10s %s\n", command.name, command.summary);
  }
  absl::StrAppend(&help,
                  "\n'tributary COMMAND --help' describes one of them.\n");
  return help;
}

int ReportUnknown(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : Commands()) names.push_back(command.name);
  return ReportError(absl::InvalidArgumentError(absl::StrCat(
      absl::StartsWith(name, "-") ? "unknown flag " : "unknown command ", name,
      DidYouMean(name, names), " (see 'tributary --help')")));
}

}  // namespace

const std::vector<Command>& Commands() {
  static const auto* const commands = new std::vector<Command>{
      {"train", "start servers and workers here and train a job",
       &RunTrainCommand},
      {"server", "run one server, for clusters", &RunServerCommand},
      {"worker", "run one worker, for clusters", &RunWorkerCommand},
      {"status", "ask a server what its job is doing", &RunStatusCommand},
      {"sample", "write text with a trained model", &RunSampleCommand},
      {"checkpoint", "list, verify and compare checkpoints",
       &RunCheckpointCommand},
      {"compare", "train a job under every exchange, side by side",
       &RunCompareCommand},
      {"devices", "list what this machine can compute on, and who uses it",
       &RunDevicesCommand},
      {"plan", "predict a step's time on a cluster", &RunPlanCommand},
      {"certs", "make certificates for tests", &RunCertsCommand},
      {"bench", "measure Tributary on this machine", &RunBenchCommand},
  };
  return *commands;
}

int RunCommandLine(const std::vector<std::string>& arguments,
                   const Environment& environment) {
  if (arguments.empty()) {
    std::fputs(Help().c_str(), stderr);
    return kExitUsage;
  }
  const std::string& name = arguments[0];
  if (name == "--help" || name == "-h" || name == "help") {
    std::fputs(Help().c_str(), stdout);
    return kExitDone;
  }
  if (name == "--version" || name == "version") {
    std::printf("tributary %s (protocol %d)\n", kVersion, kProtocolVersion);
    return kExitDone;
  }
  for (const Command& command : Commands()) {
    if (name == command.name) {
      return command.run({arguments.begin() + 1, arguments.end()}, environment);
    }
  }
  return ReportUnknown(name);
}

}  // namespace tributary

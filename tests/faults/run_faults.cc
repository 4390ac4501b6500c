// Runs combinations of failpoints, actions, models and seeds, and prints a
// table:
//   run_faults PROGRAM FOLDER [--points W1,S3] [--actions crash,error]
//              [--models mlp,gpt,tables] [--seeds 3] [--servers 2]
//              [--replicas 1] [--fixed_lag 1] [--disk 1]
// The last two concern the model `tables`. Exits with 1 if any run fails its
// checks.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/faults/fault_matrix.h"

namespace tributary {
namespace {

struct Flags {
  std::string program;
  std::string folder;
  std::vector<std::string> points = AllFailpoints();
  std::vector<std::string> actions = {"crash", "stop(5000)", "error"};
  std::vector<std::string> models = {"mlp", "gpt"};
  int64_t seeds = 3;
  FaultCase fault;  // With the other flags.
};

bool Parse(int argc, char** argv, Flags* flags) {
  if (argc < 3) return false;
  flags->program = argv[1];
  flags->folder = argv[2];
  for (int i = 3; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const std::vector<std::string> values = absl::StrSplit(argv[i + 1], ',');
    if (name == "--points") {
      flags->points = values;
    } else if (name == "--actions") {
      flags->actions = values;
    } else if (name == "--models") {
      flags->models = values;
    } else if (name == "--seeds") {
      if (!absl::SimpleAtoi(argv[i + 1], &flags->seeds)) return false;
    } else if (name == "--servers") {
      if (!absl::SimpleAtoi(argv[i + 1], &flags->fault.servers)) return false;
    } else if (name == "--fixed_lag") {
      if (!absl::SimpleAtoi(argv[i + 1], &flags->fault.fixed_lag)) return false;
    } else if (name == "--replicas") {
      if (!absl::SimpleAtob(argv[i + 1], &flags->fault.replicas)) return false;
    } else if (name != "--disk" ||
               !absl::SimpleAtob(argv[i + 1], &flags->fault.disk)) {
      return false;
    }
  }
  return true;
}

int Main(const Flags& flags) {
  int runs = 0, wrong = 0, silent = 0;
  std::map<std::string, std::vector<double>> recovery;  // Times by action.
  for (const std::string& model : flags.models) {
    for (int64_t seed = 1; seed <= flags.seeds; ++seed) {
      FaultCase fault = flags.fault;
      fault.program = flags.program;
      fault.model = model;
      fault.seed = seed;
      const FaultResult undisturbed = RunFault(fault, flags.folder);
      std::printf("%s seed %d undisturbed: %s %s %s\n", model.c_str(),
                  static_cast<int>(seed), undisturbed.status.ToString().c_str(),
                  undisturbed.weights_sha256.c_str(),
                  undisturbed.rows_sha256.c_str());
      for (const std::string& point : flags.points) {
        for (const std::string& action : flags.actions) {
          fault.point = point;
          fault.action = action;
          const FaultResult result = RunFault(fault, flags.folder);
          ++runs;
          const bool equal =
              result.weights_sha256 == undisturbed.weights_sha256 &&
              result.rows_sha256 == undisturbed.rows_sha256;
          const bool good = result.status.ok() && equal;
          if (!good) ++wrong;
          if (result.actions == 0) ++silent;
          if (result.recovery.has_value()) {
            recovery[action].push_back(
                absl::ToDoubleMilliseconds(*result.recovery));
          }
          std::printf(
              "%-4s %-11s %s seed %d: %s, %s bits, %d actions, %d restarts, "
              "%.1f s%s\n",
              point.c_str(), action.c_str(), model.c_str(),
              static_cast<int>(seed), good ? "ok" : "WRONG",
              equal ? "equal" : "OTHER", result.actions, result.restarts,
              absl::ToDoubleSeconds(result.time),
              result.status.ok()
                  ? ""
                  : absl::StrCat(" ", result.status.ToString()).c_str());
          std::fflush(stdout);
        }
      }
    }
  }
  std::printf("\n%d runs, %d wrong, %d in which the point was not reached\n",
              runs, wrong, silent);
  for (auto& [action, times] : recovery) {
    std::sort(times.begin(), times.end());
    std::printf("%-11s recovered in %.0f ms (median), %.0f ms (worst)\n",
                action.c_str(), times[times.size() / 2], times.back());
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tributary

int main(int argc, char** argv) {
  tributary::Flags flags;
  if (!tributary::Parse(argc, argv, &flags)) {
    std::fprintf(stderr,
                 "usage: run_faults PROGRAM FOLDER [--points W1,S3] [--actions "
                 "crash,error] [--models mlp,gpt,tables] [--seeds 3] "
                 "[--servers 2] [--replicas 1] [--fixed_lag 1] [--disk 1]\n");
    return 2;
  }
  std::filesystem::create_directories(flags.folder);
  return tributary::Main(flags);
}

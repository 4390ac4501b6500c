#include "deploy/tools/bench/bench_command.h"

#include <cstdio>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/text/nearest.h"
#include "deploy/flags/exit_code.h"
#include "worker/training/training_sources.h"

namespace tributary {
namespace {

constexpr char kBenchHelp[] =
    "Measures performance on this machine.\n\n"
    "Examples:\n"
    "  tributary bench step gpt --mode exchange\n"
    "      Time a training step, and the cost of the exchange in it.\n"
    "  tributary bench exchange --workers 2\n"
    "      Measure the exchange alone, and compare with the machine's "
    "limit.\n\n"
    "Usage: tributary bench step MODEL [arguments]\n"
    "       tributary bench exchange [arguments]\n\n"
    "'tributary bench step --help' and 'tributary bench exchange --help'\n"
    "describe the benchmarks.\n";

}  // namespace

int RunBenchCommand(const std::vector<std::string>& arguments,
                    const Environment& environment,
                    const TrainingSources& sources) {
  const std::string what = arguments.empty() ? "" : arguments[0];
  const std::vector<std::string> rest(
      arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end());
  if (what == "--help" || what == "-h") {
    std::fputs(kBenchHelp, stdout);
    return kExitDone;
  }
  if (what == "step") return RunBenchStepCommand(rest, environment, sources);
  if (what == "exchange") return RunBenchExchangeCommand(rest, environment);
  // Started by bench exchange to measure the limit; not listed in --help.
  if (what == "stream") return RunBenchStreamCommand(rest, environment);
  return ReportError(absl::InvalidArgumentError(
      absl::StrCat(what.empty() ? "bench: missing benchmark"
                                : absl::StrCat("unknown benchmark ", what),
                   " (expected 'bench step MODEL' or 'bench exchange')",
                   DidYouMean(what, {"step", "exchange"}))));
}

}  // namespace tributary

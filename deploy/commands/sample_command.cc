#include <unistd.h>

#include <cstdint>
#include <cstdio>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/text/escape.h"
#include "deploy/commands/subcommands.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/device_flag.h"
#include "deploy/flags/exit_code.h"
#include "deploy/train/run_folder.h"
#include "deploy/train/trained_model.h"
#include "worker/models/generate.h"

namespace tributary {

int RunSampleCommand(const std::vector<std::string>& arguments,
                     const Environment& environment) {
  std::string directory;
  std::string prompt;
  GenerateOptions options;
  options.bytes = 500;
  int64_t seed = 1;
  std::string device_name;
  CommandLine line(
      "sample", "DIR", "Generates text with the gpt model of the run in DIR.",
      {{"sample runs/licenses-20240501-120000", "Generate 500 bytes."},
       {"sample DIR --prompt 'You may copy' --bytes 200 --seed 7",
        "Continue the given text."},
       {"sample DIR --temperature 0", "Always choose the likeliest byte."}});
  line.SetOperand(/*required=*/true, &directory);
  line.AddText("prompt", "TEXT",
               "Text to continue. Default: the start of a line.", &prompt);
  line.AddInteger("bytes", "Number of bytes to generate. Default 500.", 0,
                  100000000, &options.bytes);
  line.AddNumber(
      "temperature",
      "Sampling temperature: below 1 favors likely bytes, above 1 flattens the "
      "distribution; 0: always the likeliest byte. Default 0.8.",
      0, 100, &options.temperature);
  line.AddInteger(
      "top-k",
      "Choose among this number of likeliest bytes; 0: all. Default 0.", 0, 256,
      &options.top_k);
  AddDeviceFlag(&line, "auto", &device_name);
  line.AddInteger(
      "seed", "Random seed; the same seed generates the same text. Default 1.",
      0, INT64_MAX, &seed);
  if (const auto code = line.ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  options.seed = static_cast<uint64_t>(seed);
  std::string remark;
  const absl::StatusOr<DeviceName> device =
      ChooseDevice(device_name, /*place=*/0, MachineGpus(), &remark);
  if (!device.ok()) return ReportError(device.status());
  if (!remark.empty()) std::fprintf(stderr, "tributary: %s\n", remark.c_str());
  const absl::StatusOr<RunFolder> run = RunFolder::Open(directory);
  if (!run.ok()) return ReportError(run.status());
  const absl::StatusOr<std::string> text =
      SampleTrainedModel(run->path(), prompt, options, *device);
  if (!text.ok()) return ReportError(text.status());
  std::string shown = absl::StrCat(prompt, *text);
  if (isatty(STDOUT_FILENO)) {
    shown = absl::StrCat(EscapeForTerminal(shown), "\n");
  }
  std::fwrite(shown.data(), 1, shown.size(), stdout);
  return kExitDone;
}

}  // namespace tributary

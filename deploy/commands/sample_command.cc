#include <unistd.h>

#include <cstdint>
#include <cstdio>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/text/escape.h"
#include "deploy/commands/subcommands.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/device_flag.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/run_files.h"
#include "deploy/launch/train/run_folder.h"
#include "deploy/launch/train/trained_model.h"
#include "worker/models/generate.h"

namespace tributary {

namespace {

// The length of the text without --bytes and --tokens.
constexpr int64_t kDefaultBytes = 500;
constexpr int64_t kMost = 100000000;

// Declares the flags that select tokens.
void AddChoiceFlags(CommandLine* line, GenerateOptions* options,
                    int64_t* seed) {
  line->AddNumber(
      "temperature",
      "Sampling temperature: below 1 favors likely tokens, above 1 flattens "
      "the distribution; 0: always the likeliest token. Default 0.8.",
      0, 100, &options->temperature);
  line->AddInteger(
      "top-k",
      "Choose among this number of likeliest tokens; 0: all. Default 0.", 0,
      kMost, &options->top_k);
  line->AddNumber(
      "top-p",
      "Choose among the likeliest tokens whose probabilities sum to this "
      "value, above 0; 1: all. Default 1.",
      0, 1, &options->top_p);
  line->AddInteger(
      "seed", "Random seed; the same seed generates the same text. Default 1.",
      0, INT64_MAX, seed);
}

}  // namespace

int RunSampleCommand(const std::vector<std::string>& arguments,
                     const Environment& environment) {
  std::string folder;
  SampleRequest request;
  int64_t bytes = kDefaultBytes;
  int64_t tokens = kMost;
  int64_t seed = 1;
  std::string device_name;
  CommandLine line(
      "sample", "DIR",
      "Generates text with the gpt model of the run in DIR. DIR may also be a "
      "GPT-2 in the format of Hugging Face.",
      {{"sample runs/licenses-20240501-120000", "Generate 500 bytes."},
       {"sample DIR --prompt 'You may copy' --bytes 200 --seed 7",
        "Continue the given text."},
       {"sample DIR --temperature 0", "Always choose the likeliest token."}});
  line.SetOperand(/*required=*/true, &folder);
  line.AddText("prompt", "TEXT",
               "Text to continue. Default: the start of a text.",
               &request.prompt);
  line.AddText("tokenizer", "PATH",
               "The model's tokenizer: a file tokenizer.json, a .tiktoken "
               "file, or a folder in the format of Hugging Face. Default: the "
               "one that the job names, or that of the folder; otherwise, "
               "tokens are bytes.",
               &request.tokenizer);
  line.AddInteger("bytes",
                  "End after the token that completes this number of bytes. "
                  "Default 500, or no limit with --tokens.",
                  0, kMost, &bytes);
  line.AddInteger("tokens",
                  "End after this number of tokens. Default: no limit.", 0,
                  kMost, &tokens);
  AddChoiceFlags(&line, &request.options, &seed);
  AddDeviceFlag(&line, "auto", &device_name);
  bool average = false;
  line.AddSwitch("average",
                 "Use the moving average of the weights, which the run keeps "
                 "with optimizer.average_decay.",
                 &average);
  if (const auto code = line.ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  request.options.seed = static_cast<uint64_t>(seed);
  request.options.tokens = tokens;
  if (line.OriginOf("tokens").empty() || !line.OriginOf("bytes").empty()) {
    request.bytes = bytes;
  }
  std::string remark;
  const absl::StatusOr<DeviceName> device =
      ChooseDevice(device_name, /*place=*/0, MachineGpus(), &remark);
  if (!device.ok()) return ReportError(device.status());
  if (!remark.empty()) std::fprintf(stderr, "tributary: %s\n", remark.c_str());
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  bool begun = false;
  const auto write = [&](absl::string_view text) {
    const std::string all =
        begun ? std::string(text) : absl::StrCat(request.prompt, text);
    begun = true;
    const std::string shown = terminal ? EscapeForTerminal(all) : all;
    std::fwrite(shown.data(), 1, shown.size(), stdout);
    if (terminal) std::fflush(stdout);
  };
  request.weights = average ? FinalWeights::kAverage : FinalWeights::kLast;
  const absl::StatusOr<RunFolder> run = RunFolder::Open(folder);
  if (!run.ok()) return ReportFileError(run.status());
  const absl::Status status =
      SampleTrainedModel(run->path(), request, *device, write);
  if (begun && terminal) std::fputc('\n', stdout);
  if (!status.ok()) {
    std::fflush(stdout);
    return ReportFileError(status);
  }
  if (!begun)
    std::fwrite(request.prompt.data(), 1, request.prompt.size(), stdout);
  return kExitDone;
}

}  // namespace tributary

#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/os/file.h"
#include "common/tensor_io/safetensors_file.h"
#include "deploy/commands/subcommands.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/run_files.h"
#include "deploy/launch/train/run_folder.h"
#include "deploy/tools/export/hugging_face.h"

namespace tributary {
namespace {

// Creates `folder`. Returns FailedPrecondition if it has contents.
absl::Status MakeEmptyFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return FileError(error.value(), "cannot create folder", folder);
  if (std::filesystem::is_empty(folder, error) && !error) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(folder, " is not empty; pass another --output"));
}

// Copies the tensors of the safetensors file `path`, of any type, to a file in
// `folder`.
absl::Status CopyTensors(const std::string& path, const std::string& folder) {
  TRIBUTARY_ASSIGN_OR_RETURN(const SafetensorsFile file,
                             SafetensorsFile::Open(path));
  TRIBUTARY_RETURN_IF_ERROR(file.Verify());
  std::vector<std::string> bytes(file.tensors().size());
  std::vector<NamedTensor> named;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const TensorEntry& entry = file.tensors()[i];
    bytes[i].resize(entry.end - entry.begin);
    TRIBUTARY_RETURN_IF_ERROR(
        file.ReadBytes(entry, absl::MakeSpan(&bytes[i][0], bytes[i].size())));
    named.push_back({entry.name, entry.shape, bytes[i].data(), entry.dtype});
  }
  return WriteSafetensors(absl::StrCat(folder, "/model.safetensors"), named,
                          {});
}

absl::Status Export(const std::string& path, FinalWeights which,
                    const std::string& format, const std::string& output) {
  TRIBUTARY_ASSIGN_OR_RETURN(const RunFolder folder, RunFolder::Open(path));
  const std::string& run = folder.path();
  const absl::StatusOr<JobSpec> job =
      LoadJob(absl::StrCat(run, "/job.textproto"));
  if (!job.ok()) {
    return absl::NotFoundError(absl::StrCat(
        job.status().message(),
        "; pass the folder of a run, which `tributary train` prints"));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string model,
                             FinalWeightsPath(run, which));
  if (format != "huggingface") {
    TRIBUTARY_RETURN_IF_ERROR(MakeEmptyFolder(output));
    return CopyTensors(model, output);
  }
  const absl::StatusOr<std::map<std::string, RunTensor>> tensors =
      ReadFinalModel(run, which);
  TRIBUTARY_RETURN_IF_ERROR(tensors.status());
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string encoding, ReadEncoding(run));
  TRIBUTARY_RETURN_IF_ERROR(MakeEmptyFolder(output));
  return WriteHuggingFaceFolder(ResolveJob(*job), *tensors, encoding, output);
}

}  // namespace

int RunExportCommand(const std::vector<std::string>& arguments,
                     const Environment& environment) {
  std::string run, output;
  std::string format = "safetensors";
  CommandLine line(
      "export", "DIR",
      "Writes the final model of the run in DIR to a folder, for other "
      "programs.",
      {{"export runs/mnist-20240501-120000 --output mnist",
        "Write mnist/model.safetensors."},
       {"export runs/gpt2-20240501-120000 --format huggingface --output gpt2",
        "Write a folder that GPT2LMHeadModel.from_pretrained loads."}});
  line.SetOperand(/*required=*/true, &run);
  line.AddChoice(
      "format", {"safetensors", "huggingface"},
      "safetensors: one file, with the names and shapes of the model's "
      "parameters. huggingface: a folder for transformers, with config.json "
      "and the tokenizer, if the run has one (bert) or began with weights from "
      "such a folder; only for models of kind gpt and bert. Default "
      "safetensors.",
      &format);
  line.AddText("output", "DIR",
               "The folder to write to, which must be new or empty. Required.",
               &output);
  bool average = false;
  line.AddSwitch("average",
                 "Write the moving average of the weights, which the run keeps "
                 "with optimizer.average_decay, in place of the last weights.",
                 &average);
  if (const auto code = line.ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  if (output.empty()) {
    return ReportError(absl::InvalidArgumentError(
        "--output is required: the folder to write to (see 'tributary export "
        "--help')"));
  }
  const absl::Status status =
      Export(run, average ? FinalWeights::kAverage : FinalWeights::kLast,
             format, output);
  if (!status.ok()) return ReportFileError(status);
  std::printf("wrote %s\n", output.c_str());
  return kExitDone;
}

}  // namespace tributary

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/types/optional.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/os/file.h"
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
#include "worker/device/factory/device_factory.h"
#include "worker/training/training_sources.h"

namespace tributary {
namespace {

struct PredictFlags {
  std::string run;
  std::string data;
  std::string out;
  std::vector<std::string> sets;
  std::string device;
  int64_t threads = 0;
  bool probabilities = false;
  bool average = false;
};

// Returns the text in the form of a CSV column.
std::string Quoted(const std::string& text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

// Returns a class's name in the form of a CSV column, or its number.
std::string ClassName(const Predictions& predictions, int64_t number) {
  if (predictions.class_names.empty()) return absl::StrCat(number);
  return Quoted(predictions.class_names[static_cast<size_t>(number)]);
}

// Returns the head of the table.
std::string Head(const Predictions& predictions, bool probabilities) {
  std::string text = predictions.names.empty() ? "" : "name,";
  if (predictions.classes) {
    absl::StrAppend(&text, "class");
  } else if (predictions.outputs == 1) {
    absl::StrAppend(&text, "value");
  }
  if (predictions.classes ? !probabilities : predictions.outputs == 1) {
    return text;
  }
  for (int64_t i = 0; i < predictions.outputs; ++i) {
    absl::StrAppend(
        &text, predictions.classes ? ",probability_" : "value_", i,
        predictions.classes || i + 1 == predictions.outputs ? "" : ",");
  }
  return text;
}

// Returns a CSV table with a row for each sample.
std::string Format(const Predictions& predictions, bool probabilities) {
  std::string text = absl::StrCat(Head(predictions, probabilities), "\n");
  for (int64_t row = 0; row < predictions.samples; ++row) {
    const double* const begin =
        predictions.values.data() + row * predictions.outputs;
    const double* const end = begin + predictions.outputs;
    std::vector<std::string> columns;
    if (!predictions.names.empty()) {
      columns.push_back(Quoted(predictions.names[static_cast<size_t>(row)]));
    }
    if (predictions.classes) {
      columns.push_back(
          ClassName(predictions, std::max_element(begin, end) - begin));
    }
    for (const double* p = begin;
         p < end && (probabilities || !predictions.classes); ++p) {
      columns.push_back(absl::StrFormat("%.9g", *p));
    }
    absl::StrAppend(&text, absl::StrJoin(columns, ","), "\n");
  }
  return text;
}

// A program of `tributary train --worker-command` has no interface for
// predictions.
absl::Status RefuseProgram(const std::string& path, const JobSpec& job) {
  if (!job.model().has_external()) return absl::OkStatus();
  TRIBUTARY_ASSIGN_OR_RETURN(const absl::optional<LaunchRecord> record,
                             ReadLaunchRecord(RunOf(path)));
  if (!record.has_value() || record->worker_command.empty()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": its model is computed by a program (", record->worker_command,
      "), which `tributary predict` cannot ask for predictions; in Python, "
      "tributary.load(run, module) loads the weights into the module, which "
      "then computes them"));
}

absl::Status Run(const PredictFlags& flags, const TrainingSources& sources) {
  TRIBUTARY_ASSIGN_OR_RETURN(const RunFolder run, RunFolder::Open(flags.run));
  TRIBUTARY_ASSIGN_OR_RETURN(const JobSpec job,
                             ReadJobOfRun(run.path(), flags.sets));
  TRIBUTARY_RETURN_IF_ERROR(RefuseProgram(flags.run, job));
  if (flags.data.empty() && !job.model().has_external() &&
      !job.data().has_external() && !job.has_sparse()) {
    return absl::InvalidArgumentError("missing --data FILE, the inputs");
  }
  std::string remark;
  TRIBUTARY_ASSIGN_OR_RETURN(
      const DeviceName device,
      ChooseDevice(flags.device, /*place=*/0, MachineGpus(), &remark));
  if (!remark.empty()) std::fprintf(stderr, "tributary: %s\n", remark.c_str());
  const int64_t threads = flags.threads > 0 ? flags.threads : UsableCores();
  TRIBUTARY_ASSIGN_OR_RETURN(
      const Predictions predictions,
      PredictFile(
          job, run.path(),
          flags.average ? FinalWeights::kAverage : FinalWeights::kLast,
          flags.data, static_cast<int>(threads),
          [&device](Precision precision) {
            return CreateDevice(device, precision);
          },
          sources));
  if (flags.probabilities && !predictions.classes) {
    return absl::InvalidArgumentError(
        "--probabilities: the model predicts numbers, not classes");
  }
  const std::string text = Format(predictions, flags.probabilities);
  if (!flags.out.empty()) return WriteFileAtomically(flags.out, {text});
  std::fwrite(text.data(), 1, text.size(), stdout);
  return absl::OkStatus();
}

}  // namespace

int RunPredictCommand(const std::vector<std::string>& arguments,
                      const Environment& environment,
                      const TrainingSources& sources) {
  PredictFlags flags;
  CommandLine line(
      "predict", "RUN",
      "Computes the outputs of the final model of the run in the folder RUN "
      "for the inputs in a file or folder, and writes a CSV table with a row "
      "for each input. Only networks of a program need the training data, too.",
      {{"predict RUN --data new.csv --out predictions.csv",
        "Predict a class, or a number, for each row."},
       {"predict RUN --data images-idx3-ubyte.gz --probabilities",
        "Print the probabilities of all classes, too."},
       {"predict RUN --data photos", "Predict a class for each picture."},
       {"predict RUN --data reviews.txt",
        "Predict a class for each line, with a bert."}});
  line.SetOperand(/*required=*/true, &flags.run);
  line.AddText(
      "data", "FILE",
      "Inputs, as the job's data: a CSV file with the columns of the training "
      "data, with or without the label's; images in the format of MNIST "
      "(IDX); for data.images, a JPEG or PNG file, a folder or tar archive of "
      "these, or a file in another format of data.images; for "
      "data.labeled_text, a CSV or TSV file with the header of the training "
      "data, with or without the label's column, or a .txt file with a text in "
      "each line. A name that ends in .gz: compressed. Required, except for "
      "the "
      "networks and data sets of a program (docs/cpp.md): the default is then "
      "the held-out samples of the job's data.",
      &flags.data);
  AddSetFlag(&line, "data.external.config={}", &flags.sets);
  line.AddText("out", "FILE", "File for the table. Default: standard output.",
               &flags.out);
  line.AddSwitch("probabilities", "Also write the probability of each class.",
                 &flags.probabilities);
  line.AddSwitch("average",
                 "Use the moving average of the weights, which the run keeps "
                 "with optimizer.average_decay.",
                 &flags.average);
  AddDeviceFlag(&line, "auto", &flags.device);
  line.AddInteger("threads",
                  "Compute threads. They do not change the result. Default: "
                  "this machine's cores.",
                  1, 1024, &flags.threads);
  if (const auto code = line.ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  const absl::Status status = Run(flags, sources);
  return status.ok() ? kExitDone : ReportFileError(status);
}

}  // namespace tributary

#include "deploy/tools/tune/tune_actions.h"

#include <cstdint>
#include <cstdio>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/os/file.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/exit_code.h"
#include "deploy/tools/tune/search/population.h"
#include "deploy/tools/tune/study_writer.h"
#include "deploy/tools/tune/tune_report.h"
#include "deploy/tools/tune/tune_study.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

constexpr int64_t kUsualRows = 20;

absl::Status ShowBest(const std::string& folder, const std::string& job_path) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<TuneStudy> study,
                             TuneStudy::Open(folder));
  const std::vector<int64_t> best = study->Best();
  if (best.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, ": no trial is complete yet"));
  }
  std::printf("%s", FormatBest(*study).c_str());
  if (job_path.empty()) return absl::OkStatus();
  if (best.size() > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("--export-job: the study has ", best.size(),
                     " best trials; pass one with --trial, and its number"));
  }
  return absl::OkStatus();
}

absl::Status Enqueue(const std::vector<std::string>& operands) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<TuneStudy> study,
                             TuneStudy::Open(operands[0]));
  const SearchSpace& space = study->space();
  SearchPoint fixed(space.size());
  for (size_t i = 1; i < operands.size(); ++i) {
    const absl::string_view set = operands[i];
    const size_t equals = set.find('=');
    const int parameter = equals == absl::string_view::npos
                              ? -1
                              : space.Find(set.substr(0, equals));
    if (parameter < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          operands[i], ": write PATH=VALUE, with a path of the search"));
    }
    TRIBUTARY_ASSIGN_OR_RETURN(
        fixed[parameter], space.ParseValue(parameter, set.substr(equals + 1)));
  }
  absl::Status status;
  do {
    if (study->study().closed()) {
      return absl::FailedPreconditionError(absl::StrCat(
          operands[0], ": the study has all trials of its budget"));
    }
    if (!TakesQueued(study->study())) {
      return absl::FailedPreconditionError(
          absl::StrCat(operands[0],
                       ": the first generation of the population is complete; "
                       "add values before, or begin another study"));
    }
    status = StudyWriter(study.get()).Enqueue(fixed);
  } while (absl::IsAborted(status));
  if (!status.ok()) return status;
  const int64_t trial = study->study().size() - 1;
  std::printf("trial %d: %s\n", static_cast<int>(trial),
              PointText(*study, trial).c_str());
  return absl::OkStatus();
}

}  // namespace

int RunTuneStatus(const std::vector<std::string>& arguments,
                  const Environment& environment) {
  std::string folder;
  bool json = false;
  int64_t rows = kUsualRows;
  CommandLine line(
      "tune status", "DIR",
      "Shows the trials of a study, the best ones first, while it "
      "runs or afterwards.",
      {{"tune status runs/search", "Print a table."},
       {"tune status runs/search --json", "Print all results for scripts."}});
  line.SetOperand(/*required=*/true, &folder);
  line.AddInteger("rows", "Number of trials to show. Default 20.", 1, 1000000,
                  &rows);
  line.AddSwitch("json", "Print one JSON object.", &json);
  if (const auto code = line.ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  const auto study = TuneStudy::Open(folder);
  if (!study.ok()) return ReportFileError(study.status());
  if (json) {
    std::printf("%s\n", StudyJson(**study)
                            .dump(-1, ' ', false,
                                  nlohmann::json::error_handler_t::replace)
                            .c_str());
  } else {
    std::printf("%s%s%s", FormatStudy(**study, rows).c_str(),
                FormatFinal(**study).c_str(), FormatBest(**study).c_str());
  }
  return kExitDone;
}

int RunTuneBest(const std::vector<std::string>& arguments,
                const Environment& environment) {
  std::string folder, job_path;
  int64_t trial = -1;
  CommandLine line(
      "tune best", "DIR",
      "Shows the best trial of a study: after a final evaluation, the one with "
      "the best mean; with several objectives, the trials that no other trial "
      "beats.",
      {{"tune best runs/search", "Print its values and its run."},
       {"tune best runs/search --export-job best.textproto",
        "Write its job, for 'tributary train best.textproto'."}});
  line.SetOperand(/*required=*/true, &folder);
  line.AddText("export-job", "FILE", "Write the job of the trial to FILE.",
               &job_path);
  line.AddInteger("trial", "Export this trial instead of the best one.", 0,
                  INT64_MAX, &trial);
  if (const auto code = line.ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  if (trial < 0) {
    const absl::Status shown = ShowBest(folder, job_path);
    if (!shown.ok()) return ReportFileError(shown);
  }
  if (job_path.empty()) return kExitDone;
  const auto study = TuneStudy::Open(folder);
  if (!study.ok()) return ReportFileError(study.status());
  if (trial < 0) trial = (*study)->Best().front();
  if (trial >= (*study)->study().size() ||
      (*study)->study().trials()[trial].point.empty()) {
    return ReportError(absl::InvalidArgumentError(
        absl::StrCat("--trial ", trial,
                     ": the study has no such trial with these "
                     "parameters; see 'tributary tune status ",
                     folder, "'")));
  }
  if (LineageOf((*study)->study(), trial).size() > 1) {
    return ReportError(absl::FailedPreconditionError(absl::StrCat(
        "--export-job: the values of trial ", trial,
        " changed while it was trained, so no job has its result; its run is ",
        (*study)->folder().Trial(trial))));
  }
  const absl::StatusOr<JobSpec> job = (*study)->JobOfTrial(trial);
  if (!job.ok()) return ReportError(job.status());
  const absl::Status written = WriteFileAtomically(job_path, {PrintJob(*job)});
  if (!written.ok()) return ReportError(written);
  std::printf("job          %s\n", job_path.c_str());
  return kExitDone;
}

int RunTuneEnqueue(const std::vector<std::string>& arguments,
                   const Environment& environment) {
  std::vector<std::string> operands;
  CommandLine line(
      "tune enqueue", "DIR PATH=VALUE...",
      "Adds a trial with these values to a study, also while it runs. Values "
      "that are left out are random.",
      {{"tune enqueue runs/search optimizer.adamw.learning_rate=0.001",
        "Try this learning rate next."}});
  line.SetOperands(&operands);
  if (const auto code = line.ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  if (operands.size() < 2) {
    return ReportError(absl::InvalidArgumentError(
        "pass the folder of a study and at least one PATH=VALUE (see "
        "'tributary tune enqueue --help')"));
  }
  const absl::Status status = Enqueue(operands);
  return status.ok() ? kExitDone : ReportFileError(status);
}

}  // namespace tributary

#include "deploy/flags/job_source.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"

namespace tributary {
namespace {

// Generated from the example by the build, which keeps the two identical.
constexpr absl::string_view kBuiltInJob =
#include "deploy/flags/built_in_job.inc"
    ;

bool IsReadableFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         access(path.c_str(), R_OK) == 0;
}

// Returns the folder in which an archive that `./tributary package` made has
// the texts of the built-in job, relative to the program.
std::string PackagedTexts() {
  std::error_code error;
  const std::filesystem::path program =
      std::filesystem::read_symlink("/proc/self/exe", error);
  return (program.parent_path().parent_path() / "share/tributary/texts")
      .string();
}

// Shortens a schedule that is longer than the job, so that --steps 10 works
// without changing the warm-up. `decay_is_set`: the command line says how long
// the decay takes.
void SetSteps(int64_t steps, bool decay_is_set, JobSpec* job,
              std::vector<std::string>* remarks) {
  job->clear_epochs();
  job->set_steps(steps);
  // Validation reports such a number.
  if (steps < 1 || !job->has_schedule()) return;
  ScheduleSpec* schedule = job->mutable_schedule();
  if (schedule->warmup_steps() > steps) schedule->set_warmup_steps(steps);
  const int64_t decay_steps = schedule->decay_steps();
  if (decay_steps <= steps || decay_is_set) return;
  schedule->clear_decay_steps();
  if (remarks == nullptr) return;
  remarks->push_back(absl::StrCat(
      "the decay of the learning rate ends after ", steps, " steps instead of ",
      decay_steps,
      "; to keep it, add --set schedule.decay_steps=", decay_steps));
}

// Returns true if one of `sets`, in the form path=value, sets one of `paths`.
bool IsSet(const std::vector<std::string>& sets,
           std::initializer_list<absl::string_view> paths) {
  return std::any_of(sets.begin(), sets.end(), [&](absl::string_view set) {
    const absl::string_view path =
        absl::StripAsciiWhitespace(set.substr(0, set.find('=')));
    return std::find(paths.begin(), paths.end(), path) != paths.end();
  });
}

// Sets the traced steps from the text of --trace-steps.
absl::Status SetTrace(const std::string& steps, JobSpec* job) {
  const size_t colon = steps.find(':');
  int64_t begin = 0;
  int64_t end = 0;
  if (colon == std::string::npos ||
      !absl::SimpleAtoi(steps.substr(0, colon), &begin) ||
      !absl::SimpleAtoi(steps.substr(colon + 1), &end)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--trace-steps ", steps,
        ": expected the first step, counted from 0, and the step after the "
        "last one, as in 100:105"));
  }
  job->mutable_output()->mutable_trace()->set_begin_step(begin);
  job->mutable_output()->mutable_trace()->set_end_step(end);
  return absl::OkStatus();
}

}  // namespace

void AddStepsFlag(CommandLine* line, JobSource* source) {
  line->AddInteger("steps",
                   "Number of steps, in place of the job's. Shortens a "
                   "schedule that is longer. Same as --set steps=N.",
                   1, INT64_MAX, &source->steps);
}

void AddSetFlag(CommandLine* line, const std::string& example,
                std::vector<std::string>* sets) {
  line->AddTexts("set", "PATH=VALUE",
                 absl::StrCat("Change a field of the job, as in ", example,
                              ". May be repeated."),
                 sets);
}

absl::StatusOr<JobSpec> BuiltInJob(
    const std::string& copies,
    const std::function<bool(const std::string&)>& is_readable) {
  TRIBUTARY_ASSIGN_OR_RETURN(JobSpec job,
                             ParseJob(kBuiltInJob, "the built-in job"));
  TextSpec* text = job.mutable_data()->mutable_text();
  const TextSpec all = *text;
  text->clear_path();
  for (const std::string& path : all.path()) {
    const std::string copy = absl::StrCat(copies, path.substr(path.rfind('/')));
    if (is_readable(path)) {
      text->add_path(path);
    } else if (is_readable(copy)) {
      text->add_path(copy);
    }
  }
  if (text->path().empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the built-in job reads the texts of /usr/share/common-licenses, and "
        "none exists; set other files with --set 'data.text.path=[\"FILE\"]', "
        "or pass a job file"));
  }
  return job;
}

absl::StatusOr<JobSpec> ReadJob(const JobSource& source,
                                std::vector<std::string>* remarks) {
  JobSpec job;
  const std::string name = !source.text.empty()   ? "job"
                           : !source.path.empty() ? source.path
                                                  : "the built-in job";
  if (!source.text.empty()) {
    TRIBUTARY_ASSIGN_OR_RETURN(job, ParseJob(source.text, name));
  } else if (!source.path.empty()) {
    TRIBUTARY_ASSIGN_OR_RETURN(job, LoadJob(source.path));
  } else {
    absl::StatusOr<JobSpec> built_in =
        BuiltInJob(PackagedTexts(), IsReadableFile);
    // Another --set may still name a text file.
    if (!built_in.ok()) {
      if (source.sets.empty()) return built_in.status();
      TRIBUTARY_ASSIGN_OR_RETURN(
          built_in, BuiltInJob("", [](const std::string&) { return true; }));
    }
    job = *built_in;
  }
  for (const std::string& set : source.sets) {
    const absl::Status status = SetField(&job, set);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--set ", set, ": ", status.message()));
    }
  }
  if (source.steps > 0 || IsSet(source.sets, {"steps"})) {
    SetSteps(source.steps > 0 ? source.steps : job.steps(),
             IsSet(source.sets, {"schedule", "schedule.decay_steps"}), &job,
             remarks);
  }
  if (source.log_every_steps.has_value()) {
    job.mutable_output()->set_log_every_steps(*source.log_every_steps);
  }
  if (!source.trace_steps.empty()) {
    TRIBUTARY_RETURN_IF_ERROR(SetTrace(source.trace_steps, &job));
  }
  if (!source.output_directory.empty()) {
    job.mutable_output()->set_directory(source.output_directory);
  }
  const absl::Status valid = ValidateJob(job);
  if (!valid.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", valid.message()));
  }
  if (job.batch().micro_batches() == kFindMicroBatches &&
      !source.finds_micro_batches) {
    return absl::InvalidArgumentError(
        "batch.micro_batches: -1 is for `tributary train`, which chooses the "
        "number by the memory of this machine's devices; set a number, as in "
        "--set batch.micro_batches=8");
  }
  return ResolveJob(std::move(job));
}

absl::StatusOr<JobSpec> ReadJobOfRun(const std::string& run,
                                     const std::vector<std::string>& sets) {
  JobSource source;
  source.path = absl::StrCat(run, "/job.textproto");
  source.sets = sets;
  std::error_code error;
  if (!std::filesystem::exists(source.path, error)) {
    return absl::NotFoundError(absl::StrCat(
        "there is no ", source.path,
        "; pass the folder of a run, which `tributary train` prints"));
  }
  return ReadJob(source);
}

}  // namespace tributary

#include "tributary/job.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/shutdown.h"
#include "common/base/status_macros.h"
#include "common/os/temporary_directory.h"
#include "deploy/flags/output_directory.h"
#include "deploy/flags/run_files.h"
#include "library/job_metrics.h"
#include "library/job_plan.h"
#include "library/job_run.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

// The folder that Job::Options::output_directory names, claimed exclusively for
// this job. If that option is empty, the folder is a temporary one, which the
// destructor removes with its contents.
class JobFolder {
 public:
  // Claims or creates the folder. Returns the errors of OutputDirectory::Claim,
  // or the system's error if a temporary folder cannot be created.
  static absl::StatusOr<std::unique_ptr<JobFolder>> Create(
      const Job::Options& options);

  const std::string& path() const {
    return claimed_ != nullptr ? claimed_->path() : temporary_->path();
  }

 private:
  JobFolder() = default;

  // Exactly one of claimed_ and temporary_ is null.
  std::unique_ptr<OutputDirectory> claimed_;
  std::unique_ptr<TemporaryDirectory> temporary_;
};

absl::StatusOr<std::unique_ptr<JobFolder>> JobFolder::Create(
    const Job::Options& options) {
  auto folder = absl::WrapUnique(new JobFolder());
  if (options.output_directory.empty()) {
    TRIBUTARY_ASSIGN_OR_RETURN(folder->temporary_,
                               TemporaryDirectory::Create());
    return folder;
  }
  OutputDirectory::Names names;
  names.folder = "output_directory";
  names.resume = "resume";
  names.overwrite = "overwrite";
  TRIBUTARY_ASSIGN_OR_RETURN(
      folder->claimed_,
      OutputDirectory::Claim(
          options.output_directory,
          EarlierRun(options.resume ? kResumeAuto : "", options.overwrite),
          names));
  return folder;
}

absl::Status ReadSummary(const std::string& folder, Job::Result* result) {
  TRIBUTARY_ASSIGN_OR_RETURN(const nlohmann::ordered_json summary,
                             ReadRunSummary(folder));
  result->summary = absl::StrCat(summary.dump(2), "\n");
  result->weights_sha256 = summary.value("weights_sha256", "");
  result->steps = summary.value("steps", int64_t{0});
  result->final_loss = NumberOf(summary, "final_loss");
  result->seconds = NumberOf(summary, "seconds");
  result->samples_per_second = NumberOf(summary, "samples_per_second");
  const auto evaluation = summary.find("evaluation");
  if (evaluation == summary.end()) return absl::OkStatus();
  Job::Evaluation last;
  last.step = evaluation->value("step", int64_t{0});
  last.loss = NumberOf(*evaluation, "loss");
  last.accuracy = evaluation->value("accuracy", 0.0);
  result->evaluation = last;
  return absl::OkStatus();
}

// Reads summary.json and the final model in the folder of a run that is done.
// Returns the system's error, with the path, if a file cannot be read, and
// DataLoss if its contents are damaged.
absl::StatusOr<Job::Result> ReadJobResult(const std::string& folder) {
  Job::Result result;
  TRIBUTARY_RETURN_IF_ERROR(ReadSummary(folder, &result));
  TRIBUTARY_ASSIGN_OR_RETURN(auto tensors, ReadFinalModel(folder));
  for (auto& [name, tensor] : tensors) {
    result.weights[name] = {std::move(tensor.shape), std::move(tensor.values)};
  }
  return result;
}

}  // namespace

struct Job::State {
  explicit State(Options given) : options(std::move(given)) {}

  const Options options;
  Shutdown stop;
  std::atomic<bool> has_run = false;
};

Job::Job(Options options)
    : state_(std::make_unique<State>(std::move(options))) {}
Job::~Job() = default;

absl::StatusOr<Job::Result> Job::Run() {
  if (state_->has_run.exchange(true)) {
    return absl::FailedPreconditionError(
        "Job::Run was called twice; create another Job for another run");
  }
  if (state_->stop.requested()) {
    return absl::CancelledError("stopped by request");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const JobPlan plan, PlanJob(state_->options));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<JobFolder> folder,
                             JobFolder::Create(state_->options));
  TRIBUTARY_RETURN_IF_ERROR(
      JobRun(plan, state_->options, folder->path()).Run(&state_->stop));
  return ReadJobResult(folder->path());
}

void Job::Stop() { state_->stop.Request(); }

}  // namespace tributary

#include "server/records/tensorboard_log.h"

#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/json.h"
#include "common/job/exchange_traits.h"
#include "common/job/job.h"
#include "common/optimizer/optimizer.h"
#include "common/os/file.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

// The values of metrics.jsonl that TensorBoard shows, and their tags.
constexpr struct {
  const char* field;
  const char* tag;
} kScalars[] = {
    {"loss", "train/loss"},
    {"learning_rate", "train/learning_rate"},
    {"gradient_norm", "train/gradient_norm"},
    {"epoch", "train/epoch"},
    {"samples_per_second", "speed/samples_per_second"},
    {"step_seconds", "speed/step_seconds"},
};

std::map<std::string, HyperParameter> HyperParametersOf(const JobSpec& job) {
  std::map<std::string, HyperParameter> parameters;
  parameters["model"].text = ModelTitle(job);
  parameters["optimizer"].text = OptimizerName(job.optimizer());
  parameters["exchange"].text = ResolveExchange(job).name;
  parameters["precision"].text = JobSpec::Precision_Name(job.precision());
  parameters["learning_rate"].number = PeakLearningRate(job.optimizer());
  parameters["batch"].number = static_cast<double>(job.batch().global());
  parameters["micro_batches"].number =
      static_cast<double>(job.batch().micro_batches());
  parameters["clip_norm"].number = job.clip_norm();
  parameters["seed"].number = static_cast<double>(job.seed());
  return parameters;
}

}  // namespace

TensorBoardLog::TensorBoardLog(const JobSpec& job, const std::string& directory,
                               Logger* log)
    : job_(job),
      folder_(absl::StrCat(directory, "/tensorboard")),
      metrics_(absl::StrCat(directory, "/metrics.jsonl")),
      log_(log) {}

void TensorBoardLog::Check(const absl::Status& status) {
  if (status.ok() || failed_) return;
  failed_ = true;
  log_->Warning(
      "the TensorBoard files are incomplete: %s; output.tensorboard: false "
      "turns them off",
      std::string(status.message()));
}

void TensorBoardLog::Begin(int64_t step) {
  if (!job_.output().tensorboard()) return;
  const absl::Time now = absl::Now();
  absl::MutexLock lock(&mu_);
  const bool again = PathExists(folder_);
  absl::StatusOr<std::unique_ptr<EventFile>> file =
      EventFile::Create(folder_, now);
  Check(file.status());
  if (!file.ok()) return;
  file_ = *std::move(file);
  if (again) {
    // The evaluation of this step may be computed again, but its training
    // loss is not, so the step's lines are added again.
    file_->AddRestart(now, step);
    std::ifstream metrics(metrics_);
    for (std::string line; std::getline(metrics, line);) {
      AddLine(line, /*first_step=*/step);
    }
  }
  file_->AddSessionStart(now, HyperParametersOf(job_));
  Check(file_->status());
}

void TensorBoardLog::Add(const std::string& line) {
  absl::MutexLock lock(&mu_);
  if (file_ != nullptr) AddLine(line, /*first_step=*/0);
}

void TensorBoardLog::AddLine(const std::string& line, int64_t first_step) {
  const nlohmann::json json = ParseJson(line);
  if (!json.is_object() || !json.contains("step") ||
      !json["step"].is_number_integer() ||
      json["step"].get<int64_t>() < first_step) {
    return;
  }
  std::map<std::string, double> values;
  for (const auto& [field, tag] : kScalars) {
    const auto found = json.find(field);
    if (found != json.end() && found->is_number()) {
      values[tag] = found->get<double>();
    }
  }
  constexpr absl::string_view kEvaluation = "evaluation_";
  for (const auto& [field, value] : json.items()) {
    if (absl::StartsWith(field, kEvaluation) && value.is_number()) {
      values[absl::StrCat("evaluation/", field.substr(kEvaluation.size()))] =
          value.get<double>();
    }
  }
  if (values.empty()) return;
  file_->AddScalars(absl::Now(), json["step"].get<int64_t>(), values);
  Check(file_->status());
}

void TensorBoardLog::End(bool success) {
  absl::MutexLock lock(&mu_);
  if (file_ == nullptr) return;
  file_->AddSessionEnd(absl::Now(), success);
  Check(file_->status());
}

}  // namespace tributary

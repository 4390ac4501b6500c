#include "library/job_result.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "deploy/flags/run_files.h"
#include "library/job_metrics.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

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

}  // namespace

absl::StatusOr<Job::Result> ReadJobResult(const std::string& folder) {
  Job::Result result;
  TRIBUTARY_RETURN_IF_ERROR(ReadSummary(folder, &result));
  TRIBUTARY_ASSIGN_OR_RETURN(auto tensors, ReadFinalModel(folder));
  for (auto& [name, tensor] : tensors) {
    result.weights[name] = {std::move(tensor.shape), std::move(tensor.values)};
  }
  return result;
}

}  // namespace tributary

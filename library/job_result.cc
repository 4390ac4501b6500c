#include "library/job_result.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/tensor_io/safetensors.h"
#include "library/job_metrics.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

constexpr int64_t kMaxSummaryBytes = 16 << 20;

absl::Status ReadSummary(const std::string& path, Job::Result* result) {
  TRIBUTARY_ASSIGN_OR_RETURN(result->summary, ReadFile(path, kMaxSummaryBytes));
  const nlohmann::json summary = ParseJson(result->summary);
  if (!summary.is_object()) {
    return absl::DataLossError(absl::StrCat(path, " is not a JSON object"));
  }
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

absl::Status ReadWeights(const std::string& path, Job::Result* result) {
  TRIBUTARY_ASSIGN_OR_RETURN(const SafetensorsFile file,
                             SafetensorsFile::Open(path));
  for (const TensorEntry& entry : file.tensors()) {
    Job::Tensor& tensor = result->weights[entry.name];
    tensor.shape = entry.shape;
    int64_t elements = 1;
    for (const int64_t size : entry.shape) elements *= size;
    tensor.values.resize(elements);
    TRIBUTARY_RETURN_IF_ERROR(
        file.ReadFloats(entry, absl::MakeSpan(tensor.values)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Job::Result> ReadJobResult(const std::string& folder) {
  Job::Result result;
  TRIBUTARY_RETURN_IF_ERROR(
      ReadSummary(absl::StrCat(folder, "/summary.json"), &result));
  TRIBUTARY_RETURN_IF_ERROR(
      ReadWeights(absl::StrCat(folder, "/final/model.safetensors"), &result));
  return result;
}

}  // namespace tributary

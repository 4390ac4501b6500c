#include "deploy/flags/run_files.h"

#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/tensor_io/safetensors_file.h"
#include "server/checkpoint/final_folder.h"

namespace tributary {

absl::StatusOr<nlohmann::ordered_json> ReadRunSummary(
    const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/summary.json");
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string text,
                             ReadFile(path, kMaxSummaryBytes));
  nlohmann::ordered_json summary = ParseOrderedJson(text);
  if (summary.is_object()) return summary;
  return absl::DataLossError(absl::StrCat(path, " is not a JSON object"));
}

absl::StatusOr<std::string> FinalWeightsPath(const std::string& folder,
                                             FinalWeights which) {
  std::error_code error;
  const std::string model = absl::StrCat(folder, "/final/model.safetensors");
  if (!std::filesystem::exists(model, error)) {
    return absl::NotFoundError(
        absl::StrCat(folder, " has no final model, ", model,
                     "; the model is written when a run ends"));
  }
  if (which == FinalWeights::kLast) return model;
  std::string average = absl::StrCat(folder, "/final/average.safetensors");
  if (std::filesystem::exists(average, error)) return average;
  return absl::NotFoundError(
      absl::StrCat(folder,
                   " has no average of the weights; train with "
                   "optimizer.average_decay above 0, or leave --average out"));
}

absl::StatusOr<std::map<std::string, RunTensor>> ReadFinalModel(
    const std::string& folder, FinalWeights which) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string path,
                             FinalWeightsPath(folder, which));
  TRIBUTARY_ASSIGN_OR_RETURN(const SafetensorsFile file,
                             SafetensorsFile::Open(path));
  TRIBUTARY_RETURN_IF_ERROR(file.Verify());
  std::map<std::string, RunTensor> tensors;
  for (const TensorEntry& entry : file.tensors()) {
    if (entry.dtype != "F32") continue;
    RunTensor& tensor = tensors[entry.name];
    tensor.shape = entry.shape;
    tensor.values.resize((entry.end - entry.begin) / sizeof(float));
    TRIBUTARY_RETURN_IF_ERROR(
        file.ReadFloats(entry, absl::MakeSpan(tensor.values)));
  }
  return tensors;
}

absl::StatusOr<std::string> ReadEncoding(const std::string& folder) {
  const absl::StatusOr<std::string> text =
      ReadFile(absl::StrCat(FinalFolder(folder), "/", kEncodingName),
               kMaxEncodingFileBytes);
  return absl::IsNotFound(text.status()) ? std::string() : text;
}

}  // namespace tributary

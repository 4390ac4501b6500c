#include "deploy/flags/run_files.h"

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/tensor_io/safetensors.h"

namespace tributary {

absl::StatusOr<std::string> ReadRunSummary(const std::string& folder) {
  return ReadFile(absl::StrCat(folder, "/summary.json"), kMaxSummaryBytes);
}

absl::StatusOr<std::map<std::string, RunTensor>> ReadFinalModel(
    const std::string& folder) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const SafetensorsFile file,
      SafetensorsFile::Open(absl::StrCat(folder, "/final/model.safetensors")));
  std::map<std::string, RunTensor> tensors;
  for (const TensorEntry& entry : file.tensors()) {
    RunTensor& tensor = tensors[entry.name];
    tensor.shape = entry.shape;
    tensor.values.resize((entry.end - entry.begin) / sizeof(float));
    TRIBUTARY_RETURN_IF_ERROR(
        file.ReadFloats(entry, absl::MakeSpan(tensor.values)));
  }
  return tensors;
}

}  // namespace tributary

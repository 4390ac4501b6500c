#include "server/checkpoint/final_folder.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/tensor_io/safetensors_file.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_files.h"
#include "server/checkpoint/verified_file.h"

namespace tributary {

std::string FinalFolder(absl::string_view run) {
  return absl::StrCat(run, "/final");
}

std::vector<NamedTensor> FinalTensors(const ArenaLayout& layout,
                                      const float* arena) {
  std::vector<NamedTensor> tensors;
  for (const Parameter& parameter : layout.parameters()) {
    const float* const values = arena + parameter.offset;
    tensors.push_back({parameter.name, parameter.shape, values});
    for (const std::string& alias : parameter.aliases) {
      tensors.push_back({alias, parameter.shape, values});
    }
  }
  return tensors;
}

absl::Status VerifyFinalFolder(const std::string& folder) {
  if (PathExists(absl::StrCat(folder, "/", kManifestName))) {
    TRIBUTARY_RETURN_IF_ERROR(VerifyCheckpoint(folder));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      const SafetensorsFile model,
      SafetensorsFile::Open(absl::StrCat(folder, "/", kFinalModelName)));
  TRIBUTARY_RETURN_IF_ERROR(model.Verify());
  const std::string average = absl::StrCat(folder, "/", kFinalAverageName);
  if (!PathExists(average)) return absl::OkStatus();
  TRIBUTARY_ASSIGN_OR_RETURN(const SafetensorsFile averaged,
                             SafetensorsFile::Open(average));
  return averaged.Verify();
}

absl::Status WriteFinalManifest(const std::string& folder,
                                CheckpointManifest manifest,
                                const std::vector<CheckpointFile>& rows,
                                FileSystem* files) {
  manifest.set_servers(1);
  manifest.clear_state();
  manifest.set_tables(!rows.empty());
  manifest.clear_file();
  manifest.set_complete(true);
  TRIBUTARY_ASSIGN_OR_RETURN(*manifest.add_file(),
                             DescribeFile(folder, kFinalModelName));
  for (const CheckpointFile& file : rows) *manifest.add_file() = file;
  return WriteManifest(folder, manifest, files);
}

}  // namespace tributary

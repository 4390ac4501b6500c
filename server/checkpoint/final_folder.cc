#include "server/checkpoint/final_folder.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/tensor_io/safetensors_file.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_files.h"
#include "server/checkpoint/verified_file.h"

namespace tributary {
namespace {

// Returns the names of the parameters and their aliases.
std::set<std::string> NamesOf(const ArenaLayout& layout) {
  std::set<std::string> names;
  for (const Parameter& parameter : layout.parameters()) {
    names.insert(parameter.name);
    names.insert(parameter.aliases.begin(), parameter.aliases.end());
  }
  return names;
}

}  // namespace

std::string FinalFolder(absl::string_view run) {
  return absl::StrCat(run, "/final");
}

std::vector<NamedTensor> FinalTensors(
    const ArenaLayout& layout, const float* arena,
    const std::vector<NamedTensor>& untrained) {
  std::vector<NamedTensor> tensors;
  for (const Parameter& parameter : layout.parameters()) {
    const float* const values = arena + parameter.offset;
    tensors.push_back({parameter.name, parameter.shape, values});
    for (const std::string& alias : parameter.aliases) {
      tensors.push_back({alias, parameter.shape, values});
    }
  }
  const std::set<std::string> names = NamesOf(layout);
  for (const NamedTensor& tensor : untrained) {
    if (names.count(tensor.name) == 0) tensors.push_back(tensor);
  }
  return tensors;
}

absl::StatusOr<std::vector<UntrainedTensor>> ReadUntrained(
    const std::string& folder, const ArenaLayout& layout) {
  const std::string path = absl::StrCat(folder, "/", kFinalModelName);
  std::vector<UntrainedTensor> tensors;
  if (!PathExists(path)) return tensors;
  TRIBUTARY_ASSIGN_OR_RETURN(const SafetensorsFile file,
                             SafetensorsFile::Open(path));
  const std::set<std::string> names = NamesOf(layout);
  for (const TensorEntry& entry : file.tensors()) {
    if (names.count(entry.name) > 0) continue;
    UntrainedTensor tensor{entry.name, entry.dtype, entry.shape,
                           std::string(entry.end - entry.begin, '\0')};
    TRIBUTARY_RETURN_IF_ERROR(file.ReadBytes(
        entry, absl::MakeSpan(&tensor.data[0], tensor.data.size())));
    tensors.push_back(std::move(tensor));
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

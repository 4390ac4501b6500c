// The folder of a finished job's model: a checkpoint of one server, without
// optimizer state, that is marked complete.
#ifndef TRIBUTARY_SERVER_CHECKPOINT_FINAL_FOLDER_H_
#define TRIBUTARY_SERVER_CHECKPOINT_FINAL_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/os/file_system.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/untrained_tensor.h"
#include "common/tensor_io/safetensors_file.h"
#include "proto/checkpoint.pb.h"

namespace tributary {

// Returns the final model's folder in the run folder `run`: RUN/final.
std::string FinalFolder(absl::string_view run);

// Name of the model file in FinalFolder.
inline constexpr char kFinalModelName[] = "model.safetensors";
// Name of a file in FinalFolder and in the run folder. The file contains what
// prediction needs to know about the training samples, such as means and
// categories (DataFacts.encoding). If prediction needs nothing, the file does
// not exist.
inline constexpr char kEncodingName[] = "data.json";
inline constexpr int64_t kMaxEncodingFileBytes = int64_t{3} << 20;
// Name of the file with the moving average of the weights, which jobs with
// optimizer.average_decay also write. Its tensors have the same names and
// shapes as those in the model file.
inline constexpr char kFinalAverageName[] = "average.safetensors";

// Returns the tensors of the model file: the parameters of `layout`, in the
// order of the table, each followed by its aliases, and then those of
// `untrained` that have other names. `arena` contains the values of the
// parameters. `arena` and the data of `untrained` must outlive the result.
std::vector<NamedTensor> FinalTensors(
    const ArenaLayout& layout, const float* arena,
    const std::vector<NamedTensor>& untrained = {});

// Reads the tensors of the model file in `folder` that are neither parameters
// of `layout` nor their aliases. Returns none if there is no model file, and
// the errors of SafetensorsFile. Blocks on the disk.
absl::StatusOr<std::vector<UntrainedTensor>> ReadUntrained(
    const std::string& folder, const ArenaLayout& layout);

// Reads all files in `folder` (see FinalFolder) that have digests, in the
// manifest or in the file, and compares them. Returns DataLoss, which names the
// first damaged file, NotFound if the folder has no model, and the system's
// error if a file cannot be read.
absl::Status VerifyFinalFolder(const std::string& folder);

// Writes a manifest for the model file in `folder`. The new manifest is a copy
// of `manifest` (the manifest of the job's last version), except that it names
// only the model file and `rows` (see WriteFinalTables), states one server and
// no optimizer state, and is marked complete. Reads the whole model; blocks on
// the disk. If it returns OK, the manifest survives a power failure. Returns
// the system's error, with the path, if the model cannot be read or the
// manifest cannot be written.
absl::Status WriteFinalManifest(const std::string& folder,
                                CheckpointManifest manifest,
                                const std::vector<CheckpointFile>& rows = {},
                                FileSystem* files = FileSystem::Posix());

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_CHECKPOINT_FINAL_FOLDER_H_

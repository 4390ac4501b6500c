// Makes a checkpoint usable where the folder of a run is expected.
#ifndef TRIBUTARY_DEPLOY_TRAIN_RUN_FOLDER_H_
#define TRIBUTARY_DEPLOY_TRAIN_RUN_FOLDER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/os/temporary_directory.h"

namespace tributary {

// The folder of a run with its job and its model. If the user has named a
// checkpoint, such as RUN/best, this is a temporary folder with the
// checkpoint's job, its model and, if it has one, the average of the weights.
// The temporary folder is removed with this object.
class RunFolder {
 public:
  // `path` is the folder of a run, which is not checked, or a checkpoint. Reads
  // and verifies a checkpoint. Returns DataLoss if it is damaged, and the
  // system's error if it cannot be copied.
  static absl::StatusOr<RunFolder> Open(const std::string& path);

  const std::string& path() const { return path_; }

 private:
  RunFolder() = default;

  std::string path_;
  std::unique_ptr<TemporaryDirectory> temporary_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TRAIN_RUN_FOLDER_H_

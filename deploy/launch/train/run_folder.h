// Lets a program read a checkpoint like the folder of a run.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_TRAIN_RUN_FOLDER_H_
#define TRIBUTARY_DEPLOY_LAUNCH_TRAIN_RUN_FOLDER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/os/temporary_directory.h"

namespace tributary {

// The folder of a run, with its job and its model. If Open was called with a
// checkpoint, such as RUN/best, this is a temporary folder that contains the
// checkpoint's job, its weights and, if it has one, the moving average of the
// weights. The destructor removes the temporary folder.
class RunFolder {
 public:
  // `path` is the folder of a run or a checkpoint. Reads the final model of a
  // run, or the checkpoint, and compares it with the digests in its manifest.
  // Returns DataLoss, naming the file, if it is damaged, and the system's error
  // if a checkpoint cannot be copied. Checks nothing else in the folder of a
  // run.
  static absl::StatusOr<RunFolder> Open(const std::string& path);

  const std::string& path() const { return path_; }

 private:
  RunFolder() = default;

  std::string path_;
  std::unique_ptr<TemporaryDirectory> temporary_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_TRAIN_RUN_FOLDER_H_

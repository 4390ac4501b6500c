// A folder for temporary files.
#ifndef TRIBUTARY_COMMON_OS_TEMPORARY_DIRECTORY_H_
#define TRIBUTARY_COMMON_OS_TEMPORARY_DIRECTORY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace tributary {

// A new folder in $TMPDIR or, if that is not set, in /tmp. The destructor
// removes it with its contents.
class TemporaryDirectory {
 public:
  // Creates the folder, which only this user may access. Returns the system's
  // error if that fails.
  static absl::StatusOr<std::unique_ptr<TemporaryDirectory>> Create();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  // Makes the destructor keep the folder.
  void Keep() { keeps_ = true; }

 private:
  explicit TemporaryDirectory(std::string path);

  const std::string path_;
  bool keeps_ = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OS_TEMPORARY_DIRECTORY_H_

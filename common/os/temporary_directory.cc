#include "common/os/temporary_directory.h"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/os/file_system.h"

namespace tributary {

TemporaryDirectory::TemporaryDirectory(std::string path)
    : path_(std::move(path)) {}

absl::StatusOr<std::unique_ptr<TemporaryDirectory>>
TemporaryDirectory::Create() {
  const char* base = getenv("TMPDIR");
  std::string path =
      absl::StrCat(base == nullptr ? "/tmp" : base, "/tributary-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return FileError(errno, "cannot create a folder like", path);
  }
  return absl::WrapUnique(new TemporaryDirectory(std::move(path)));
}

TemporaryDirectory::~TemporaryDirectory() {
  if (keeps_) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tributary

#include "worker/data/files/shared_cache.h"

#include <filesystem>
#include <limits>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/os/process.h"

namespace tributary {

int64_t HalfOfMemory() {
  return MemoryLimitBytes().value_or(std::numeric_limits<int64_t>::max()) / 2;
}

absl::Status CheckSpace(const std::string& folder, int64_t kept, int64_t more) {
  std::error_code error;
  const std::filesystem::space_info space =
      std::filesystem::space(folder, error);
  // The file system does not tell; writing will.
  if (error || space.available >= static_cast<uint64_t>(kept + 2 * more)) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      folder, ": ", kept + more, " bytes of decoded data would take more than ",
      "half of the disk's free space, of which ", space.available,
      " bytes are left"));
}

}  // namespace tributary

#include "worker/data/files/file_stamp.h"

#include <sys/stat.h>
#include <xxhash.h>

namespace tributary {

absl::optional<uint64_t> FileStamp(const std::string& path) {
  struct stat found;
  if (stat(path.c_str(), &found) != 0) return absl::nullopt;
  const int64_t numbers[] = {static_cast<int64_t>(found.st_dev),
                             static_cast<int64_t>(found.st_ino),
                             found.st_size,
                             found.st_mtim.tv_sec,
                             found.st_mtim.tv_nsec,
                             found.st_ctim.tv_sec,
                             found.st_ctim.tv_nsec};
  return XXH3_64bits_withSeed(numbers, sizeof(numbers),
                              XXH3_64bits(path.data(), path.size()));
}

}  // namespace tributary

// A folder in which processes of this machine share decoded data.
#ifndef TRIBUTARY_WORKER_DATA_FILES_SHARED_CACHE_H_
#define TRIBUTARY_WORKER_DATA_FILES_SHARED_CACHE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"

namespace tributary {

// Returns half of MemoryLimitBytes; half of the largest number if that is
// unknown.
int64_t HalfOfMemory();

// Where decoded data are kept, and where warnings about them go.
struct SharedCache {
  std::string folder;
  // Thread-safe. Called when data cannot be kept; they are then decoded again
  // by each process that needs them.
  std::function<void(const std::string&)> warn;
  // Maximum size of the files of pictures of a data set; others are decoded
  // each time they are read. If the disk had to read them again, because the
  // memory does not hold them, this would take about as long.
  int64_t most_picture_bytes = HalfOfMemory();
};

// Returns ResourceExhausted if, after writing `more` bytes to the folder, data
// of `kept` + `more` bytes would take more space than they leave free.
absl::Status CheckSpace(const std::string& folder, int64_t kept, int64_t more);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_FILES_SHARED_CACHE_H_

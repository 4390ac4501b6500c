// Files for the tests of data sets.
#ifndef TRIBUTARY_TESTS_WORKER_DATA_DATA_TEST_UTIL_H_
#define TRIBUTARY_TESTS_WORKER_DATA_DATA_TEST_UTIL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tributary {

// A new, empty folder of the running test; all its files go with it.
class DataFolder {
 public:
  DataFolder();
  ~DataFolder();
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string PathOf(absl::string_view file) const;
  // Writes (or replaces) a file and returns its path.
  std::string Write(absl::string_view file, absl::string_view bytes) const;

 private:
  std::string path_;
};

// One gzip member.
std::string Gzip(absl::string_view bytes);

// Four bytes, big-endian.
std::string BigEndian(uint32_t value);

// A whole IDX file with these pixels or labels.
std::string IdxImagesFile(uint32_t count, uint32_t height, uint32_t width,
                          absl::string_view pixels);
std::string IdxLabelsFile(const std::vector<int>& labels);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_DATA_DATA_TEST_UTIL_H_

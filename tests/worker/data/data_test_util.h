// Creates files for tests of data sets.
#ifndef TRIBUTARY_TESTS_WORKER_DATA_DATA_TEST_UTIL_H_
#define TRIBUTARY_TESTS_WORKER_DATA_DATA_TEST_UTIL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tributary {

// A temporary folder, which the destructor removes with its contents.
class DataFolder {
 public:
  DataFolder();
  ~DataFolder();
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;

  const std::string& path() const { return path_; }
  // Returns the path of the file of this name in the folder.
  std::string PathOf(absl::string_view file) const;
  // Writes `bytes` to a file in the folder, replacing an existing file, and
  // returns its path. Fails the test on an error.
  std::string Write(absl::string_view file, absl::string_view bytes) const;

 private:
  std::string path_;
};

// Returns `bytes`, compressed as one gzip member.
std::string Gzip(absl::string_view bytes);

// Returns the four bytes of `value`, in big-endian order.
std::string BigEndian(uint32_t value);

// Return the contents of an IDX file with these pixels or labels.
std::string IdxImagesFile(uint32_t count, uint32_t height, uint32_t width,
                          absl::string_view pixels);
std::string IdxLabelsFile(const std::vector<int>& labels);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_DATA_DATA_TEST_UTIL_H_

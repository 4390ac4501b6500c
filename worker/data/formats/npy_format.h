// The header of a NumPy array file (.npy).
#ifndef TRIBUTARY_WORKER_DATA_FORMATS_NPY_FORMAT_H_
#define TRIBUTARY_WORKER_DATA_FORMATS_NPY_FORMAT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tributary {

struct NpyHeader {
  std::string type;  // NumPy's name of the element type, such as "<i4".
  std::vector<int64_t> shape;
  int64_t bytes = 0;  // Size of the header: offset of the first element.
  // Size of an element in bytes, or 0 if the elements are not integers that
  // this machine can read. Readable integers are little-endian and have 1, 2, 4
  // or 8 bytes.
  int64_t integer_bytes = 0;
  bool is_signed = false;
};

// Parses the header of a NumPy array file. `start` is the beginning of the file
// and must contain the whole header. Supports format versions 1 to 3 and C
// order. Accepts arbitrary bytes. If the header is malformed or unsupported,
// returns InvalidArgument with a message that begins with `name`, the file's
// name.
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view start,
                                         absl::string_view name);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_FORMATS_NPY_FORMAT_H_

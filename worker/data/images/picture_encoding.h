// What a model of pictures needs to know about its training data.
#ifndef TRIBUTARY_WORKER_DATA_IMAGES_PICTURE_ENCODING_H_
#define TRIBUTARY_WORKER_DATA_IMAGES_PICTURE_ENCODING_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tributary {

// Properties of the training pictures that are stored with the model, so that
// other pictures can be prepared in the same way.
struct PictureEncoding {
  // Size of a sample, in pixels.
  int64_t height = 0;
  int64_t width = 0;
  // The names of the classes. Empty if the data do not name them.
  std::vector<std::string> classes;

  // Returns a JSON object. If it would have more than `max_bytes` bytes, the
  // names of the classes are left out.
  std::string ToJson(size_t max_bytes) const;
  // Parses a string that ToJson has returned. `json` need not be trusted:
  // returns InvalidArgument, with the reason, if it is malformed.
  static absl::StatusOr<PictureEncoding> FromJson(absl::string_view json);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_IMAGES_PICTURE_ENCODING_H_

// Interface for stored pictures with labels.
#ifndef TRIBUTARY_WORKER_DATA_IMAGES_PICTURE_SOURCE_H_
#define TRIBUTARY_WORKER_DATA_IMAGES_PICTURE_SOURCE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "worker/data/images/picture.h"

namespace tributary {

// Pictures with labels, in a fixed order. Immutable and therefore thread-safe.
class PictureSource {
 public:
  virtual ~PictureSource() = default;

  virtual int64_t size() const = 0;
  virtual int64_t Label(int64_t index) const = 0;
  // Returns where the picture is stored, for messages: the path of a file, an
  // archive with member and offset, or a file with the picture's number in it.
  virtual std::string Name(int64_t index) const = 0;
  // Reads and decodes the picture. Errors begin with its name. May block on
  // the file system.
  virtual absl::StatusOr<Picture> Read(int64_t index) const = 0;
  // Returns a hash of the picture, from which the fingerprint of the data set
  // is computed (see proto/DATA.md). Returns the same errors as Read.
  virtual absl::StatusOr<uint64_t> Hash(int64_t index) const = 0;
  // Returns a number that differs after the file of the picture was changed or
  // replaced; nullopt if the file does not exist, or if Read takes no time,
  // because the picture is in memory.
  virtual absl::optional<uint64_t> Stamp(int64_t /*index*/) const {
    return absl::nullopt;
  }
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_IMAGES_PICTURE_SOURCE_H_

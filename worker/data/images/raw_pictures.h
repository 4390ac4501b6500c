// Pictures that are stored without compression, and are kept in memory.
#ifndef TRIBUTARY_WORKER_DATA_IMAGES_RAW_PICTURES_H_
#define TRIBUTARY_WORKER_DATA_IMAGES_RAW_PICTURES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "worker/data/images/picture_source.h"

namespace tributary {

// The positions of the pictures in a file. A pixel has `channels` bytes;
// `first` and `stride` are in bytes.
struct RawLayout {
  int64_t count = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  int64_t first = 0;   // Offset of the first picture.
  int64_t stride = 0;  // From one picture to the next.
  // Order of a picture's bytes. True: [channels, height, width]. False:
  // [height, width, channels].
  bool planar = false;
  std::vector<int64_t> labels;  // [count]
};

// A file with pictures.
struct RawFile {
  std::string path;
  std::string bytes;
  RawLayout layout;
};

// The pictures of several files, one after the other.
class RawPictures final : public PictureSource {
 public:
  // The layout of each file must lie within its bytes. Read returns pictures
  // with `channels` channels.
  RawPictures(std::vector<RawFile> files, int64_t channels);

  int64_t size() const override { return ends_.back(); }
  int64_t Label(int64_t index) const override;
  std::string Name(int64_t index) const override;
  // Never fails.
  absl::StatusOr<Picture> Read(int64_t index) const override;
  // Hashes the stored bytes of the picture and its label. Never fails.
  absl::StatusOr<uint64_t> Hash(int64_t index) const override;

 private:
  struct Place {
    const RawFile* file;
    int64_t index;  // In the file.
  };
  Place PlaceOf(int64_t index) const;

  const std::vector<RawFile> files_;
  const int64_t channels_;
  std::vector<int64_t> ends_;  // Number of pictures up to the end of each file.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_IMAGES_RAW_PICTURES_H_

// Turns stored pictures into the samples of a model.
#ifndef TRIBUTARY_WORKER_DATA_IMAGES_PICTURE_TRANSFORM_H_
#define TRIBUTARY_WORKER_DATA_IMAGES_PICTURE_TRANSFORM_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "proto/job.pb.h"
#include "worker/data/images/picture.h"
#include "worker/data/images/resize.h"

namespace tributary {

// Scales, crops, mirrors and normalizes pictures. All results are pure
// functions of the picture, the job's fields and, for training, (seed, epoch,
// index of the sample); proto/DATA.md defines them. Immutable and therefore
// thread-safe.
class PictureTransform {
 public:
  // `spec` must be valid. The resulting samples have `height` x `width` pixels.
  PictureTransform(const ImagesSpec& spec, int64_t height, int64_t width,
                   uint64_t seed);

  // Returns InvalidArgument if scaling a picture of height x width pixels would
  // result in more than kMaxPicturePixels pixels, because one side is extremely
  // long.
  absl::Status Check(int64_t height, int64_t width) const;

  // Train and HeldOut turn a picture of the training or the held-out part into
  // a sample, and write it, [channels, height, width], to `sample`.
  void Train(const Picture& picture, int64_t epoch, int64_t index,
             float* sample) const;
  void HeldOut(const Picture& picture, float* sample) const;

  // Returns the random rectangle that is cut out of a picture of height x width
  // pixels if the job sets resized_crop. Corresponds to torchvision's
  // RandomResizedCrop.get_params.
  PictureRectangle ResizedCrop(int64_t height, int64_t width, int64_t epoch,
                               int64_t index) const;

 private:
  struct Size {
    int64_t height;
    int64_t width;
  };
  Size ScaledSize(int64_t height, int64_t width) const;
  // Scales a picture, keeping its aspect ratio. If the job sets the field
  // `resize`, the shorter side gets that length. Otherwise the picture gets the
  // smallest size that is at least as wide and as high as a sample.
  Picture Scaled(const Picture& picture) const;
  // Cuts the sample out of `picture` at (top, left), normalizes it, and writes
  // it to `sample`. Where the sample extends beyond the picture, it is black.
  void Write(const Picture& picture, int64_t top, int64_t left, bool mirrored,
             float* sample) const;

  const ImagesSpec spec_;
  const int64_t height_;
  const int64_t width_;
  const uint64_t seed_;
  // For each channel, the feature (a normalized float) for each of the 256
  // values of a pixel.
  std::vector<std::array<float, 256>> scale_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_IMAGES_PICTURE_TRANSFORM_H_

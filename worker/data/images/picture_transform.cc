#include "worker/data/images/picture_transform.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/numerics/philox.h"

namespace tributary {
namespace {

// Number of rectangles that ResizedCrop tries; each takes one block of four
// random numbers.
constexpr int kCropAttempts = 10;
// Blocks of a sample: attempts, then the flip, then the random crop.
constexpr int kFlipBlock = 10;
constexpr int kCropBlock = 11;
constexpr uint64_t kBlocks = 16;

PhiloxBlock Draw(uint64_t seed, int64_t epoch, int64_t index, int block) {
  const RandomStream stream = {seed, RandomPurpose::kAugmentation,
                               static_cast<uint32_t>(epoch),
                               static_cast<uint32_t>(epoch >> 32)};
  return stream.Block(static_cast<uint64_t>(index) * kBlocks +
                      static_cast<uint64_t>(block));
}

// Returns a number in [low, high).
double Uniform(uint32_t bits, double low, double high) {
  return low + (high - low) * static_cast<double>(UniformFloat(bits));
}

// Returns an integer in [0, count).
int64_t Integer(uint32_t bits, int64_t count) {
  return static_cast<int64_t>((uint64_t{bits} * static_cast<uint64_t>(count)) >>
                              32);
}

// Half of `pixels`, rounded to nearest, ties to even, as Python's round.
int64_t HalfOf(int64_t pixels) {
  return static_cast<int64_t>(std::nearbyint(static_cast<double>(pixels) / 2));
}

double ChannelValue(const google::protobuf::RepeatedField<double>& values,
                    int channel, double otherwise) {
  if (values.empty()) return otherwise;
  return values.Get(values.size() == 1 ? 0 : channel);
}

}  // namespace

PictureTransform::PictureTransform(const ImagesSpec& spec, int64_t height,
                                   int64_t width, uint64_t seed)
    : spec_(spec),
      height_(height),
      width_(width),
      seed_(seed),
      scale_(static_cast<size_t>(spec.channels())) {
  for (int channel = 0; channel < spec.channels(); ++channel) {
    const double mean = ChannelValue(spec.mean(), channel, 0);
    const double deviation = ChannelValue(spec.deviation(), channel, 1);
    for (size_t value = 0; value < 256; ++value) {
      scale_[static_cast<size_t>(channel)][value] = static_cast<float>(
          (static_cast<double>(value) / 255 - mean) / deviation);
    }
  }
}

PictureRectangle PictureTransform::ResizedCrop(int64_t height, int64_t width,
                                               int64_t epoch,
                                               int64_t index) const {
  const AugmentationSpec::ResizedCrop& crop =
      spec_.augmentation().resized_crop();
  const auto area = static_cast<double>(height * width);
  for (int attempt = 0; attempt < kCropAttempts; ++attempt) {
    const PhiloxBlock bits = Draw(seed_, epoch, index, attempt);
    const double target =
        area * Uniform(bits[0], crop.min_area(), crop.max_area());
    const double ratio = std::exp(Uniform(bits[1], std::log(crop.min_ratio()),
                                          std::log(crop.max_ratio())));
    const auto w =
        static_cast<int64_t>(std::nearbyint(std::sqrt(target * ratio)));
    const auto h =
        static_cast<int64_t>(std::nearbyint(std::sqrt(target / ratio)));
    if (w > 0 && w <= width && h > 0 && h <= height) {
      return {Integer(bits[2], height - h + 1), Integer(bits[3], width - w + 1),
              h, w};
    }
  }
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  int64_t w = width;
  int64_t h = height;
  if (ratio < crop.min_ratio()) {
    h = static_cast<int64_t>(
        std::nearbyint(static_cast<double>(width) / crop.min_ratio()));
  } else if (ratio > crop.max_ratio()) {
    w = static_cast<int64_t>(
        std::nearbyint(static_cast<double>(height) * crop.max_ratio()));
  }
  w = std::clamp<int64_t>(w, 1, width);
  h = std::clamp<int64_t>(h, 1, height);
  return {(height - h) / 2, (width - w) / 2, h, w};
}

PictureTransform::Size PictureTransform::ScaledSize(int64_t height,
                                                    int64_t width) const {
  if (spec_.resize() != 0) {
    const int64_t shorter = std::min(height, width);
    return {spec_.resize() * height / shorter,
            spec_.resize() * width / shorter};
  }
  if (height * width_ < width * height_) {
    return {height_, std::max(width_, height_ * width / height)};
  }
  return {std::max(height_, width_ * height / width), width_};
}

absl::Status PictureTransform::Check(int64_t height, int64_t width) const {
  const Size scaled = ScaledSize(height, width);
  if (scaled.height <= kMaxPicturePixels / scaled.width) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a picture of ", height, " x ", width, " pixels would be scaled to ",
      scaled.height, " x ", scaled.width, "; at most ", kMaxPicturePixels,
      " pixels are possible"));
}

Picture PictureTransform::Scaled(const Picture& picture) const {
  const Size size = ScaledSize(picture.height, picture.width);
  return CropAndResize(picture, {0, 0, picture.height, picture.width},
                       size.height, size.width);
}

void PictureTransform::Write(const Picture& picture, int64_t top, int64_t left,
                             bool mirrored, float* sample) const {
  const int64_t channels = picture.channels;
  for (int64_t c = 0; c < channels; ++c) {
    const std::array<float, 256>& scale = scale_[static_cast<size_t>(c)];
    for (int64_t y = 0; y < height_; ++y) {
      const int64_t row = top + y;
      const bool inside = row >= 0 && row < picture.height;
      const uint8_t* const from =
          picture.pixels.data() + (inside ? row * picture.width * channels : 0);
      for (int64_t x = 0; x < width_; ++x) {
        const int64_t column = left + (mirrored ? width_ - 1 - x : x);
        const bool black = !inside || column < 0 || column >= picture.width;
        *sample++ = scale[black ? 0 : from[column * channels + c]];
      }
    }
  }
}

void PictureTransform::Train(const Picture& picture, int64_t epoch,
                             int64_t index, float* sample) const {
  const AugmentationSpec& augmentation = spec_.augmentation();
  const bool mirrored = augmentation.flip_probability() > 0 &&
                        static_cast<double>(UniformFloat(
                            Draw(seed_, epoch, index, kFlipBlock)[0])) <
                            augmentation.flip_probability();
  if (augmentation.has_resized_crop()) {
    Write(CropAndResize(
              picture, ResizedCrop(picture.height, picture.width, epoch, index),
              height_, width_),
          0, 0, mirrored, sample);
    return;
  }
  const Picture scaled = Scaled(picture);
  int64_t top = HalfOf(scaled.height - height_);
  int64_t left = HalfOf(scaled.width - width_);
  if (const int64_t padding = augmentation.crop_padding(); padding > 0) {
    const PhiloxBlock bits = Draw(seed_, epoch, index, kCropBlock);
    top = Integer(bits[0], scaled.height + 2 * padding - height_ + 1) - padding;
    left = Integer(bits[1], scaled.width + 2 * padding - width_ + 1) - padding;
  }
  Write(scaled, top, left, mirrored, sample);
}

void PictureTransform::HeldOut(const Picture& picture, float* sample) const {
  const Picture scaled = Scaled(picture);
  Write(scaled, HalfOf(scaled.height - height_), HalfOf(scaled.width - width_),
        /*mirrored=*/false, sample);
}

}  // namespace tributary

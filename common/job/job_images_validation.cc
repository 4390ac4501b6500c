#include "common/job/job_images_validation.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/job/job_checks.h"

namespace tributary {
namespace {

using Paths = google::protobuf::RepeatedPtrField<std::string>;
using Numbers = google::protobuf::RepeatedField<double>;

// A sample has at most 3 * 2^26 features.
constexpr int64_t kMaxSide = int64_t{1} << 13;
constexpr double kMaxRatio = 100;

absl::Status CheckPaths(const std::string& field, const Paths& paths) {
  for (int i = 0; i < paths.size(); ++i) {
    if (paths[i].empty()) {
      return Error(absl::StrCat(field, "[", i, "]"), "is empty");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSizes(const ImagesSpec& images) {
  TRIBUTARY_RETURN_IF_ERROR(
      Between("data.images.height", images.height(), 0, kMaxSide));
  TRIBUTARY_RETURN_IF_ERROR(
      Between("data.images.width", images.width(), 0, kMaxSide));
  TRIBUTARY_RETURN_IF_ERROR(
      Between("data.images.resize", images.resize(), 0, kMaxSide));
  if ((images.height() == 0) != (images.width() == 0)) {
    return Error("data.images.height",
                 "set both height and width, or neither of them");
  }
  if (images.resize() == 0) return absl::OkStatus();
  if (images.height() == 0) {
    return Error("data.images.resize", "needs data.images.height and width");
  }
  if (images.resize() < images.height() || images.resize() < images.width()) {
    return Error("data.images.resize", images.resize(),
                 " is less than height or width, so that the model's picture ",
                 "cannot be cut out");
  }
  return absl::OkStatus();
}

absl::Status CheckCount(const std::string& field, const Numbers& values,
                        int64_t channels) {
  if (values.size() <= 1 || values.size() == channels) return absl::OkStatus();
  return Error(field, "has ", values.size(), " numbers; write one, or one for ",
               "each of the ", channels, " channels");
}

absl::Status CheckPixels(const ImagesSpec& images) {
  if (images.channels() != 1 && images.channels() != 3) {
    return Error("data.images.channels", images.channels(),
                 " is neither 3 (color) nor 1 (gray)");
  }
  TRIBUTARY_RETURN_IF_ERROR(
      CheckCount("data.images.mean", images.mean(), images.channels()));
  TRIBUTARY_RETURN_IF_ERROR(CheckCount("data.images.deviation",
                                       images.deviation(), images.channels()));
  for (const double mean : images.mean()) {
    if (!(std::abs(mean) <= kMaxScale)) {
      return Error("data.images.mean", mean, " is not between ", -kMaxScale,
                   " and ", kMaxScale);
    }
  }
  for (const double deviation : images.deviation()) {
    if (!(deviation >= 1 / kMaxScale && deviation <= kMaxScale)) {
      return Error("data.images.deviation", deviation, " is not between ",
                   1 / kMaxScale, " and ", kMaxScale);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRange(const std::string& field, double least, double most,
                        double lowest, double highest) {
  if (least >= lowest && least > 0 && least <= most && most <= highest) {
    return absl::OkStatus();
  }
  return Error(field, "the range from ", least, " to ", most,
               " is invalid; it must be above 0, at least ", lowest,
               ", at most ", highest, ", and not empty");
}

absl::Status CheckAugmentation(const AugmentationSpec& augmentation) {
  const std::string prefix = "data.images.augmentation.";
  const double flip = augmentation.flip_probability();
  if (!(flip >= 0 && flip <= 1)) {
    return Error(absl::StrCat(prefix, "flip_probability"), flip,
                 " is not between 0 and 1");
  }
  TRIBUTARY_RETURN_IF_ERROR(Between(absl::StrCat(prefix, "crop_padding"),
                                    augmentation.crop_padding(), 0, kMaxSide));
  if (!augmentation.has_resized_crop()) return absl::OkStatus();
  if (augmentation.crop_padding() != 0) {
    return Error(absl::StrCat(prefix, "crop_padding"),
                 "has no effect with resized_crop; set one of them");
  }
  const AugmentationSpec::ResizedCrop& crop = augmentation.resized_crop();
  TRIBUTARY_RETURN_IF_ERROR(
      CheckRange(absl::StrCat(prefix, "resized_crop.min_area"), crop.min_area(),
                 crop.max_area(), 0, 1));
  return CheckRange(absl::StrCat(prefix, "resized_crop.min_ratio"),
                    crop.min_ratio(), crop.max_ratio(), 1 / kMaxRatio,
                    kMaxRatio);
}

}  // namespace

absl::Status ValidateImages(const ImagesSpec& images) {
  if (images.train().empty()) return Required("data.images.train");
  TRIBUTARY_RETURN_IF_ERROR(CheckPaths("data.images.train", images.train()));
  TRIBUTARY_RETURN_IF_ERROR(CheckPaths("data.images.test", images.test()));
  TRIBUTARY_RETURN_IF_ERROR(CheckSizes(images));
  TRIBUTARY_RETURN_IF_ERROR(CheckPixels(images));
  if (images.classes() != 0) {
    TRIBUTARY_RETURN_IF_ERROR(
        Between("data.images.classes", images.classes(), 2, kMaxClasses));
  }
  return CheckAugmentation(images.augmentation());
}

}  // namespace tributary

#include "worker/data/image_data_set.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/thread_pool.h"
#include "worker/data/files/data_file.h"
#include "worker/data/files/data_fingerprint.h"
#include "worker/data/images/cached_pictures.h"
#include "worker/data/images/open_pictures.h"
#include "worker/data/images/picture_encoding.h"

namespace tributary {
namespace {

using Paths = google::protobuf::RepeatedPtrField<std::string>;

absl::Status CheckLabels(const PictureSource& source, int64_t classes) {
  for (int64_t i = 0; i < source.size(); ++i) {
    if (source.Label(i) < classes) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        source.Name(i), ": label ", source.Label(i), "; labels are below ",
        classes,
        ", the number of classes; correct data.images.classes, or the "
        "file"));
  }
  return absl::OkStatus();
}

// The number of classes that the training part has.
int64_t CountImageClasses(const PictureSource& source,
                          const std::vector<std::string>& names,
                          ImagesSpec::Format format) {
  if (!names.empty()) return static_cast<int64_t>(names.size());
  if (format == ImagesSpec::CIFAR10) return 10;
  if (format == ImagesSpec::CIFAR100) return 100;
  int64_t most = 0;
  for (int64_t i = 0; i < source.size(); ++i) {
    most = std::max(most, source.Label(i));
  }
  return most + 1;
}

}  // namespace

// Opens the training part and the held-out part of a data set.
class ImageDataSet::Opener {
 public:
  // `spec` and `cache`, which may be null, must outlive this object.
  Opener(const ImagesSpec& spec, int threads, const SharedCache* cache)
      : spec_(spec), threads_(threads), cache_(cache), format_(spec.format()) {
    info_.kind = DataInfo::Kind::kImages;
    info_.sample_shape = {spec.channels(), spec.height(), spec.width()};
  }

  // The following are called once each, in this order; `Add` for the training
  // part, then for the held-out part.

  // Opens a part, which has no pictures if there are no paths.
  absl::Status Add(const Paths& paths);
  // Lets both parts keep decoded pictures in the cache, if there is one.
  void UseCache();
  // Decides which pictures the parts keep, and returns the data set of both.
  absl::StatusOr<std::unique_ptr<ImageDataSet>> Finish(uint64_t seed);

 private:
  // What is known about the pictures of a source, by index.
  struct Examined {
    std::vector<uint64_t> hashes;
    std::vector<absl::Status> statuses;
    // Only if the pictures were decoded.
    std::vector<int64_t> heights;
    std::vector<int64_t> widths;
  };

  bool skips_corrupt() const { return spec_.on_corrupt() == ImagesSpec::SKIP; }
  // Hashes all pictures of the source, and decodes them if the job needs to
  // know their sizes or which ones are corrupt.
  Examined Examine(const PictureSource& source) const;
  // Decides which pictures the part keeps.
  absl::Status Keep(const Paths& paths, Part* part);
  // Checks that the picture has the size of the first one, if the job does not
  // state a size.
  absl::Status CheckSize(const PictureSource& source, int64_t index,
                         const Examined& examined);
  // Adds a number to the bytes from which the fingerprint is computed.
  void AddToFingerprint(uint64_t number);

  const ImagesSpec& spec_;
  const int threads_;
  const SharedCache* const cache_;
  ImagesSpec::Format format_;
  std::vector<std::string> classes_;
  DataInfo info_;
  std::vector<Part> parts_;
  std::vector<std::string> left_out_;
  std::string hashed_;
};

ImageDataSet::Opener::Examined ImageDataSet::Opener::Examine(
    const PictureSource& source) const {
  const bool decode = skips_corrupt() || spec_.height() == 0;
  const auto count = static_cast<size_t>(source.size());
  Examined examined = {
      std::vector<uint64_t>(count), std::vector<absl::Status>(count),
      std::vector<int64_t>(count), std::vector<int64_t>(count)};
  const auto examine = [&](int64_t index) {
    const auto i = static_cast<size_t>(index);
    const absl::StatusOr<uint64_t> hash = source.Hash(index);
    examined.statuses[i] = hash.status();
    if (!hash.ok()) return;
    examined.hashes[i] = *hash;
    if (!decode) return;
    const absl::StatusOr<Picture> picture = source.Read(index);
    examined.statuses[i] = picture.status();
    if (!picture.ok()) return;
    examined.heights[i] = picture->height;
    examined.widths[i] = picture->width;
  };
  ParallelFor(threads_, source.size(), [&examine](int, int64_t index) {
    examine(index);
    return absl::OkStatus();
  }).IgnoreError();
  return examined;
}

absl::Status ImageDataSet::Opener::CheckSize(const PictureSource& source,
                                             int64_t index,
                                             const Examined& examined) {
  if (spec_.height() != 0) return absl::OkStatus();
  const int64_t height = examined.heights[static_cast<size_t>(index)];
  const int64_t width = examined.widths[static_cast<size_t>(index)];
  std::vector<int64_t>& shape = info_.sample_shape;
  if (shape[1] == 0) {
    shape[1] = height;
    shape[2] = width;
  }
  if (height == shape[1] && width == shape[2]) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      source.Name(index), ": has ", height, " x ", width,
      " pixels, but the first picture has ", shape[1], " x ", shape[2],
      "; set data.images.height and width to scale all pictures"));
}

void ImageDataSet::Opener::AddToFingerprint(uint64_t number) {
  for (int shift = 0; shift < 64; shift += 8) {
    hashed_.push_back(static_cast<char>(number >> shift));
  }
}

absl::Status ImageDataSet::Opener::Keep(const Paths& paths, Part* part) {
  if (part->source == nullptr) return absl::OkStatus();
  const Examined examined = Examine(*part->source);
  for (int64_t index = 0; index < part->source->size(); ++index) {
    const auto i = static_cast<size_t>(index);
    const absl::Status& status = examined.statuses[i];
    if (!status.ok()) {
      if (!skips_corrupt()) return status;
      left_out_.emplace_back(status.message());
      continue;
    }
    TRIBUTARY_RETURN_IF_ERROR(CheckSize(*part->source, index, examined));
    part->kept.push_back(index);
    AddToFingerprint(examined.hashes[i]);
    AddToFingerprint(static_cast<uint64_t>(part->source->Label(index)));
  }
  if (!part->kept.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      paths.Get(0), ": no picture can be decoded; the first error: ",
      left_out_.empty() ? "none" : left_out_[0]));
}

absl::Status ImageDataSet::Opener::Add(const Paths& paths) {
  const bool train = parts_.empty();
  Part& part = parts_.emplace_back();
  if (paths.empty()) return absl::OkStatus();
  const FileLoader load = [](const std::string& path, std::string* bytes) {
    return AppendWholeFile(path, kMaxDataBytes, bytes);
  };
  TRIBUTARY_ASSIGN_OR_RETURN(
      part.source,
      OpenPictures(paths, spec_.channels(), load, &format_, &classes_));
  if (train) {
    info_.classes = spec_.classes() == 0
                        ? CountImageClasses(*part.source, classes_, format_)
                        : spec_.classes();
  }
  return CheckLabels(*part.source, info_.classes);
}

void ImageDataSet::Opener::UseCache() {
  if (cache_ == nullptr) return;
  int64_t pictures = 0;
  for (const Part& part : parts_) {
    if (part.source != nullptr) pictures += part.source->size();
  }
  for (Part& part : parts_) {
    if (part.source == nullptr) continue;
    SharedCache cache = *cache_;
    // Each part has files of its own.
    cache.most_picture_bytes = static_cast<int64_t>(
        static_cast<double>(cache.most_picture_bytes) *
        static_cast<double>(part.source->size()) /
        static_cast<double>(std::max<int64_t>(1, pictures)));
    part.source =
        CachedPictures::Wrap(std::move(part.source), spec_.channels(), cache);
  }
}

absl::StatusOr<std::unique_ptr<ImageDataSet>> ImageDataSet::Opener::Finish(
    uint64_t seed) {
  const Paths* const paths[] = {&spec_.train(), &spec_.test()};
  for (size_t i = 0; i < parts_.size(); ++i) {
    TRIBUTARY_RETURN_IF_ERROR(Keep(*paths[i], &parts_[i]));
    absl::StrAppend(&hashed_, "|", parts_[i].size(), "|");
  }
  if (info_.classes < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec_.train(0),
                     ": has only one class; at least 2 classes "
                     "are needed"));
  }
  std::unique_ptr<ImageDataSet> data(
      new ImageDataSet(spec_, std::move(info_), seed));
  data->train_ = std::move(parts_[0]);
  data->held_out_ = std::move(parts_[1]);
  data->fingerprint_ = DataFingerprint({hashed_});
  data->encoding_ =
      PictureEncoding{data->info_.sample_shape[1], data->info_.sample_shape[2],
                      std::move(classes_)}
          .ToJson(kMaxEncodingBytes);
  data->left_out_ = std::move(left_out_);
  return data;
}

absl::StatusOr<std::unique_ptr<ImageDataSet>> ImageDataSet::Open(
    const ImagesSpec& spec, uint64_t seed, int threads,
    const SharedCache* cache) {
  Opener opener(spec, threads, cache);
  TRIBUTARY_RETURN_IF_ERROR(opener.Add(spec.train()));
  TRIBUTARY_RETURN_IF_ERROR(opener.Add(spec.test()));
  opener.UseCache();
  return opener.Finish(seed);
}

ImageDataSet::ImageDataSet(const ImagesSpec& spec, DataInfo info, uint64_t seed)
    : spec_(spec),
      info_(std::move(info)),
      transform_(spec, info_.sample_shape[1], info_.sample_shape[2], seed) {}

absl::StatusOr<Picture> ImageDataSet::Read(const Part& part,
                                           int64_t index) const {
  const int64_t stored = part.kept[static_cast<size_t>(index)];
  TRIBUTARY_ASSIGN_OR_RETURN(Picture picture, part.source->Read(stored));
  const absl::Status fits = transform_.Check(picture.height, picture.width);
  if (fits.ok()) return picture;
  return absl::Status(fits.code(), absl::StrCat(part.source->Name(stored), ": ",
                                                fits.message()));
}

std::vector<std::string> ImageDataSet::warnings() const {
  std::vector<std::string> warnings;
  for (const std::string& picture : left_out_) {
    warnings.push_back(absl::StrCat(
        "left out a picture, because data.images.on_corrupt is SKIP: ",
        picture));
  }
  return warnings;
}

void ImageDataSet::Resize(int64_t samples, Batch* batch) const {
  *batch = Batch();
  batch->samples = samples;
  batch->features.resize(static_cast<size_t>(samples * info_.sample_shape[0] *
                                             info_.sample_shape[1] *
                                             info_.sample_shape[2]));
  batch->labels.resize(static_cast<size_t>(samples));
}

absl::Status ImageDataSet::CopySample(const Sample& sample, int64_t place,
                                      Batch* batch) const {
  const Part& part = sample.held_out ? held_out_ : train_;
  TRIBUTARY_ASSIGN_OR_RETURN(const Picture picture, Read(part, sample.index));
  float* const to = batch->features.data() + place * info_.sample_shape[0] *
                                                 info_.sample_shape[1] *
                                                 info_.sample_shape[2];
  if (sample.held_out) {
    transform_.HeldOut(picture, to);
  } else {
    transform_.Train(picture, sample.epoch, sample.index, to);
  }
  batch->labels[static_cast<size_t>(place)] = static_cast<int32_t>(
      part.source->Label(part.kept[static_cast<size_t>(sample.index)]));
  return absl::OkStatus();
}

}  // namespace tributary

#include "worker/data/image_data_set.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/base/thread.h"
#include "worker/data/files/data_file.h"
#include "worker/data/files/data_fingerprint.h"
#include "worker/data/images/open_pictures.h"
#include "worker/data/images/picture_encoding.h"

namespace tributary {
namespace {

// Runs work(i) for i in [0, count) on `threads` threads.
template <typename Work>
void ForEach(int64_t count, int threads, const Work& work) {
  std::atomic<int64_t> next{0};
  const auto run = [&] {
    for (int64_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<Thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(run);
  run();
  for (Thread& thread : others) thread.Join();
}

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
int64_t CountClasses(const PictureSource& source,
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

// What opening learns about the pictures of a source, by index.
struct ImageDataSet::Examined {
  std::vector<uint64_t> hashes;
  std::vector<absl::Status> statuses;
  // Only if they were decoded.
  std::vector<int64_t> heights;
  std::vector<int64_t> widths;

  absl::Status status() const {
    for (const absl::Status& status : statuses) {
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
};

ImageDataSet::Examined ImageDataSet::Examine(const PictureSource& source,
                                             const ImagesSpec& spec,
                                             int threads) {
  const bool decode =
      spec.on_corrupt() == ImagesSpec::SKIP || spec.height() == 0;
  const auto count = static_cast<size_t>(source.size());
  Examined examined = {
      std::vector<uint64_t>(count), std::vector<absl::Status>(count),
      std::vector<int64_t>(count), std::vector<int64_t>(count)};
  ForEach(source.size(), threads, [&](int64_t index) {
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
  });
  return examined;
}

absl::StatusOr<std::unique_ptr<ImageDataSet>> ImageDataSet::Open(
    const ImagesSpec& spec, uint64_t seed, int threads) {
  std::vector<std::string> classes;
  ImagesSpec::Format format = spec.format();
  const FileLoader load = [](const std::string& path, std::string* bytes) {
    return AppendWholeFile(path, kMaxDataBytes, bytes);
  };
  DataInfo info;
  info.kind = DataInfo::Kind::kImages;
  info.sample_shape = {spec.channels(), spec.height(), spec.width()};
  std::vector<Part> parts;
  std::vector<std::string> left_out;
  std::string hashed;
  for (const auto* const paths : {&spec.train(), &spec.test()}) {
    Part part;
    if (!paths->empty()) {
      TRIBUTARY_ASSIGN_OR_RETURN(
          part.source,
          OpenPictures(*paths, spec.channels(), load, &format, &classes));
      if (paths == &spec.train()) {
        const int64_t found = CountClasses(*part.source, classes, format);
        info.classes = spec.classes() == 0 ? found : spec.classes();
      }
      TRIBUTARY_RETURN_IF_ERROR(CheckLabels(*part.source, info.classes));
      const Examined examined = Examine(*part.source, spec, threads);
      if (spec.on_corrupt() != ImagesSpec::SKIP) {
        TRIBUTARY_RETURN_IF_ERROR(examined.status());
      }
      for (int64_t index = 0; index < part.source->size(); ++index) {
        const auto i = static_cast<size_t>(index);
        if (!examined.statuses[i].ok()) {
          left_out.emplace_back(examined.statuses[i].message());
          continue;
        }
        if (spec.height() == 0) {
          const int64_t height = examined.heights[i];
          const int64_t width = examined.widths[i];
          if (info.sample_shape[1] == 0) {
            info.sample_shape[1] = height;
            info.sample_shape[2] = width;
          }
          if (height != info.sample_shape[1] || width != info.sample_shape[2]) {
            return absl::InvalidArgumentError(absl::StrCat(
                part.source->Name(index), ": has ", height, " x ", width,
                " pixels, but the first picture has ", info.sample_shape[1],
                " x ", info.sample_shape[2],
                "; set data.images.height and width to scale all pictures"));
          }
        }
        part.kept.push_back(index);
        const uint64_t facts[2] = {
            examined.hashes[i],
            static_cast<uint64_t>(part.source->Label(index))};
        for (const uint64_t fact : facts) {
          for (int shift = 0; shift < 64; shift += 8) {
            hashed.push_back(static_cast<char>(fact >> shift));
          }
        }
      }
      if (part.kept.empty()) {
        return absl::InvalidArgumentError(absl::StrCat(
            paths->Get(0), ": no picture can be decoded; the first error: ",
            left_out.empty() ? "none" : left_out[0]));
      }
    }
    hashed += absl::StrCat("|", part.size(), "|");
    parts.push_back(std::move(part));
  }
  if (info.classes < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec.train(0),
                     ": has only one class; at least 2 classes "
                     "are needed"));
  }
  std::unique_ptr<ImageDataSet> data(
      new ImageDataSet(spec, std::move(info), seed));
  data->train_ = std::move(parts[0]);
  data->held_out_ = std::move(parts[1]);
  data->fingerprint_ = DataFingerprint({hashed});
  data->encoding_ =
      PictureEncoding{data->info_.sample_shape[1], data->info_.sample_shape[2],
                      std::move(classes)}
          .ToJson(kMaxEncodingBytes);
  data->left_out_ = std::move(left_out);
  return data;
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

float* ImageDataSet::Sample(int64_t place, Batch* batch) const {
  return batch->features.data() + place * info_.sample_shape[0] *
                                      info_.sample_shape[1] *
                                      info_.sample_shape[2];
}

void ImageDataSet::ReadTrain(int64_t epoch, absl::Span<const int64_t> indexes,
                             Batch* batch) const {
  Resize(static_cast<int64_t>(indexes.size()), batch);
  for (size_t i = 0; i < indexes.size(); ++i) {
    const absl::StatusOr<Picture> picture = Read(train_, indexes[i]);
    if (!picture.ok()) {
      batch->error = picture.status();
      return;
    }
    transform_.Train(*picture, epoch, indexes[i],
                     Sample(static_cast<int64_t>(i), batch));
    batch->labels[i] = static_cast<int32_t>(
        train_.source->Label(train_.kept[static_cast<size_t>(indexes[i])]));
  }
}

void ImageDataSet::ReadEvaluation(int64_t begin, int64_t end,
                                  Batch* batch) const {
  Resize(end - begin, batch);
  for (int64_t index = begin; index < end; ++index) {
    const absl::StatusOr<Picture> picture = Read(held_out_, index);
    if (!picture.ok()) {
      batch->error = picture.status();
      return;
    }
    transform_.HeldOut(*picture, Sample(index - begin, batch));
    batch->labels[static_cast<size_t>(index - begin)] = static_cast<int32_t>(
        held_out_.source->Label(held_out_.kept[static_cast<size_t>(index)]));
  }
}

}  // namespace tributary

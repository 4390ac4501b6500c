#include "worker/data/idx_data_set.h"

#include <sys/stat.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/text/counted.h"
#include "worker/data/files/data_file.h"
#include "worker/data/files/data_fingerprint.h"
#include "worker/data/formats/idx_format.h"

namespace tributary {
namespace {

bool Exists(const std::string& path) {
  struct stat information;
  // Open reports the error for files that exist but cannot be examined.
  return stat(path.c_str(), &information) == 0 || errno != ENOENT;
}

absl::Status CheckSpec(const IdxSpec& spec) {
  if (spec.classes() < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.idx.classes: ", spec.classes(), "; must be at least 1"));
  }
  if (!std::isfinite(spec.mean())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.idx.mean: ", spec.mean(), "; must be a finite number"));
  }
  if (!(spec.deviation() > 0) || !std::isfinite(spec.deviation())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.idx.deviation: ", spec.deviation(), "; must be above 0"));
  }
  return absl::OkStatus();
}

absl::Status CheckDirectory(const std::string& directory) {
  if (directory.empty()) {
    return absl::InvalidArgumentError("data.idx.directory: must be set");
  }
  struct stat information;
  if (stat(directory.c_str(), &information) != 0) {
    const std::string message =
        absl::StrCat("data.idx.directory: ", directory, ": ", strerror(errno));
    if (errno == ENOENT) return absl::NotFoundError(message);
    return absl::InvalidArgumentError(message);
  }
  if (!S_ISDIR(information.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.idx.directory: ", directory, ": not a folder"));
  }
  return absl::OkStatus();
}

// Returns the path of the file on disk: plain if it exists, otherwise with
// `.gz`.
absl::StatusOr<std::string> FindFile(const std::string& directory,
                                     const std::string& file) {
  const std::string plain = absl::StrCat(directory, "/", file);
  if (Exists(plain)) return plain;
  const std::string compressed = absl::StrCat(plain, ".gz");
  if (Exists(compressed)) return compressed;
  return absl::NotFoundError(
      absl::StrCat(plain, ": no such file, nor one with .gz"));
}

// Reads the whole file, or one byte more than its header declares.
absl::StatusOr<std::string> ReadIdxFile(IdxKind kind, const std::string& path) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<DataFile> file,
                             DataFile::Open(path));
  std::string bytes;
  TRIBUTARY_RETURN_IF_ERROR(file->Read(IdxHeaderBytes(kind), &bytes));
  TRIBUTARY_ASSIGN_OR_RETURN(const IdxHeader header,
                             ParseIdxHeader(kind, bytes, path));
  const int64_t wanted = header.file_bytes + 1;
  bytes.reserve(static_cast<size_t>(std::min(wanted, file->size_bound() + 1)));
  TRIBUTARY_RETURN_IF_ERROR(
      file->Read(wanted - static_cast<int64_t>(bytes.size()), &bytes));
  return bytes;
}

}  // namespace

absl::StatusOr<IdxDataSet::Part> IdxDataSet::OpenPart(
    const IdxSpec& spec, const std::string& prefix) {
  Part part;
  TRIBUTARY_ASSIGN_OR_RETURN(
      part.images_name,
      FindFile(spec.directory(), absl::StrCat(prefix, "-images-idx3-ubyte")));
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::string labels_name,
      FindFile(spec.directory(), absl::StrCat(prefix, "-labels-idx1-ubyte")));
  TRIBUTARY_ASSIGN_OR_RETURN(part.image_file,
                             ReadIdxFile(IdxKind::kImages, part.images_name));
  TRIBUTARY_ASSIGN_OR_RETURN(const IdxImages images,
                             ParseIdxImages(part.image_file, part.images_name));
  TRIBUTARY_ASSIGN_OR_RETURN(part.label_file,
                             ReadIdxFile(IdxKind::kLabels, labels_name));
  TRIBUTARY_ASSIGN_OR_RETURN(
      const absl::string_view labels,
      ParseIdxLabels(part.label_file, spec.classes(), labels_name));
  if (static_cast<int64_t>(labels.size()) != images.count) {
    return absl::InvalidArgumentError(absl::StrCat(
        labels_name, ": byte 4: ", Counted(labels.size(), "label"), " for ",
        Counted(images.count, "image"), " in ", part.images_name));
  }
  part.samples = images.count;
  part.height = images.height;
  part.width = images.width;
  return part;
}

absl::StatusOr<std::unique_ptr<IdxDataSet>> IdxDataSet::Open(
    const IdxSpec& spec) {
  TRIBUTARY_RETURN_IF_ERROR(CheckSpec(spec));
  TRIBUTARY_RETURN_IF_ERROR(CheckDirectory(spec.directory()));
  TRIBUTARY_ASSIGN_OR_RETURN(Part train, OpenPart(spec, "train"));
  TRIBUTARY_ASSIGN_OR_RETURN(Part held_out, OpenPart(spec, "t10k"));
  if (held_out.height != train.height || held_out.width != train.width) {
    return absl::InvalidArgumentError(absl::StrCat(
        held_out.images_name, ": byte 8: images of ", held_out.height, " x ",
        held_out.width, " pixels; the training images have ", train.height,
        " x ", train.width));
  }
  return std::unique_ptr<IdxDataSet>(
      new IdxDataSet(spec, std::move(train), std::move(held_out)));
}

std::array<float, 256> ScaledPixels(const IdxSpec& spec) {
  std::array<float, 256> scaled;
  for (size_t value = 0; value < scaled.size(); ++value) {
    scaled[value] = static_cast<float>(
        (static_cast<double>(value) / 255 - spec.mean()) / spec.deviation());
  }
  return scaled;
}

IdxDataSet::IdxDataSet(const IdxSpec& spec, Part train, Part held_out)
    : train_(std::move(train)),
      held_out_(std::move(held_out)),
      scaled_(ScaledPixels(spec)) {
  info_.kind = DataInfo::Kind::kImages;
  info_.sample_shape = {1, train_.height, train_.width};
  info_.classes = spec.classes();
  fingerprint_ = DataFingerprint({train_.image_file, train_.label_file,
                                  held_out_.image_file, held_out_.label_file});
}

void IdxDataSet::Resize(int64_t samples, Batch* batch) const {
  batch->samples = samples;
  batch->features.resize(
      static_cast<size_t>(samples * train_.height * train_.width));
  batch->labels.resize(static_cast<size_t>(samples));
  batch->tokens.clear();
  batch->values.clear();
}

absl::Status IdxDataSet::CopySample(const Sample& sample, int64_t place,
                                    Batch* batch) const {
  const Part& part = sample.held_out ? held_out_ : train_;
  assert(sample.index >= 0 && sample.index < part.samples);
  const int64_t pixels = part.height * part.width;
  const char* from = part.image_file.data() + IdxHeaderBytes(IdxKind::kImages) +
                     sample.index * pixels;
  std::transform(from, from + pixels, batch->features.data() + place * pixels,
                 [this](char pixel) {
                   return scaled_[static_cast<unsigned char>(pixel)];
                 });
  batch->labels[static_cast<size_t>(place)] =
      static_cast<unsigned char>(part.label_file[static_cast<size_t>(
          IdxHeaderBytes(IdxKind::kLabels) + sample.index)]);
  return absl::OkStatus();
}

}  // namespace tributary

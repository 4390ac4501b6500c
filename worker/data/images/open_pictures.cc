#include "worker/data/images/open_pictures.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "worker/data/images/encoded_pictures.h"
#include "worker/data/images/raw_formats.h"
#include "worker/data/images/raw_pictures.h"

namespace tributary {
namespace {

constexpr absl::string_view kNpySuffix = ".images.npy";

absl::StatusOr<ImagesSpec::Format> FormatOf(const std::string& path) {
  struct stat information;
  if (stat(path.c_str(), &information) != 0) {
    const int error = errno;
    const std::string message =
        absl::StrCat("data.images: ", path, ": ", strerror(error));
    return error == ENOENT ? absl::NotFoundError(message)
                           : absl::InvalidArgumentError(message);
  }
  const int64_t size = information.st_size;
  if (S_ISDIR(information.st_mode)) return ImagesSpec::FOLDER;
  if (absl::EndsWith(path, ".tar")) return ImagesSpec::TAR;
  if (absl::EndsWith(path, ".npy")) return ImagesSpec::NPY;
  if (absl::StrContains(path, "images") &&
      (absl::StrContains(path, "idx3") || absl::StrContains(path, "idx4"))) {
    return ImagesSpec::IDX;
  }
  if (absl::EndsWith(path, ".bin") && size > 0) {
    const bool ten = size % kCifar10Bytes == 0;
    const bool hundred = size % kCifar100Bytes == 0;
    if (ten && !hundred) return ImagesSpec::CIFAR10;
    if (hundred && !ten) return ImagesSpec::CIFAR100;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("data.images: ", path,
                   ": the file's name and size do not show its format; set "
                   "data.images.format to TAR, CIFAR10, CIFAR100, NPY or IDX"));
}

// Replaces the last `from` in the file's name by `to`.
std::string WithLabels(const std::string& path, const std::string& from,
                       const std::string& to) {
  const size_t slash = path.rfind('/');
  const size_t at = path.rfind(from);
  if (at == std::string::npos || (slash != std::string::npos && at < slash)) {
    return "";
  }
  return absl::StrCat(path.substr(0, at), to, path.substr(at + from.size()));
}

absl::Status CheckCount(const std::string& labels_path, const RawFile& file) {
  const auto labels = static_cast<int64_t>(file.layout.labels.size());
  if (labels == file.layout.count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(labels_path, ": has ", labels, " labels for the ",
                   file.layout.count, " pictures of ", file.path));
}

// Adds the labels of a NumPy array or an IDX file.
absl::Status AddLabels(bool npy, const FileLoader& load, RawFile* file) {
  std::string path =
      npy ? WithLabels(file->path, std::string(kNpySuffix), ".labels.npy")
          : WithLabels(file->path, "images", "labels");
  if (path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.images: ", file->path, ": expected a name ",
        npy ? "that ends in .images.npy; the labels are read from the file "
              "whose name ends in .labels.npy"
            : "that contains `images`; the labels are read from the file "
              "whose name has `labels` instead"));
  }
  if (!npy) {
    for (const char* const dimensions : {"idx4", "idx3"}) {
      const std::string other = WithLabels(path, dimensions, "idx1");
      if (!other.empty()) path = other;
    }
  }
  std::string bytes;
  TRIBUTARY_RETURN_IF_ERROR(load(path, &bytes));
  TRIBUTARY_ASSIGN_OR_RETURN(
      file->layout.labels,
      npy ? ParseNpyLabels(bytes, path) : ParseIdxPictureLabels(bytes, path));
  return CheckCount(path, *file);
}

absl::StatusOr<RawFile> OpenRaw(const std::string& path,
                                ImagesSpec::Format format, bool labeled,
                                const FileLoader& load) {
  RawFile file;
  file.path = path;
  TRIBUTARY_RETURN_IF_ERROR(load(path, &file.bytes));
  switch (format) {
    case ImagesSpec::NPY: {
      TRIBUTARY_ASSIGN_OR_RETURN(file.layout,
                                 ParseNpyPictures(file.bytes, path));
      break;
    }
    case ImagesSpec::IDX: {
      TRIBUTARY_ASSIGN_OR_RETURN(file.layout,
                                 ParseIdxPictures(file.bytes, path));
      break;
    }
    default: {
      TRIBUTARY_ASSIGN_OR_RETURN(
          file.layout,
          ParseCifar(file.bytes, format == ImagesSpec::CIFAR100, path));
      return file;
    }
  }
  if (labeled) {
    TRIBUTARY_RETURN_IF_ERROR(
        AddLabels(/*npy=*/format == ImagesSpec::NPY, load, &file));
  } else {
    file.layout.labels.assign(static_cast<size_t>(file.layout.count), 0);
  }
  return file;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PictureSource>> OpenPictures(
    const google::protobuf::RepeatedPtrField<std::string>& paths,
    int64_t channels, const FileLoader& load,
    ImagesSpec::Format* format_of_part, std::vector<std::string>* classes) {
  ImagesSpec::Format& format = *format_of_part;
  if (format == ImagesSpec::AUTO) {
    for (const std::string& path : paths) {
      TRIBUTARY_ASSIGN_OR_RETURN(const ImagesSpec::Format found,
                                 FormatOf(path));
      if (format != ImagesSpec::AUTO && found != format) {
        return absl::InvalidArgumentError(absl::StrCat(
            "data.images: ", paths[0], " is ", ImagesSpec::Format_Name(format),
            ", but ", path, " is ", ImagesSpec::Format_Name(found),
            "; all files must have one format"));
      }
      format = found;
    }
  }
  const std::vector<std::string> list(paths.begin(), paths.end());
  if (format == ImagesSpec::FOLDER) {
    return EncodedPictures::OpenFolders(list, channels, classes);
  }
  if (format == ImagesSpec::TAR) {
    return EncodedPictures::OpenArchives(list, channels, classes);
  }
  std::vector<RawFile> files;
  for (const std::string& path : list) {
    TRIBUTARY_ASSIGN_OR_RETURN(RawFile file,
                               OpenRaw(path, format, /*labeled=*/true, load));
    files.push_back(std::move(file));
  }
  return std::make_unique<RawPictures>(std::move(files), channels);
}

absl::StatusOr<std::unique_ptr<PictureSource>> OpenUnlabeledPictures(
    const std::string& path, int64_t channels, const FileLoader& load,
    ImagesSpec::Format format) {
  absl::StatusOr<ImagesSpec::Format> found = FormatOf(path);
  if (absl::IsNotFound(found.status())) return found.status();
  // A name that shows no format may be that of a picture, or of a file in the
  // format of the training data.
  const bool raw = format != ImagesSpec::AUTO && format != ImagesSpec::FOLDER &&
                   format != ImagesSpec::TAR;
  if (!found.ok()) found = raw ? format : ImagesSpec::FOLDER;
  if (*found == ImagesSpec::FOLDER || *found == ImagesSpec::TAR) {
    return EncodedPictures::OpenUnlabeled(path, channels);
  }
  std::vector<RawFile> files;
  TRIBUTARY_ASSIGN_OR_RETURN(RawFile file,
                             OpenRaw(path, *found, /*labeled=*/false, load));
  files.push_back(std::move(file));
  return std::make_unique<RawPictures>(std::move(files), channels);
}

}  // namespace tributary

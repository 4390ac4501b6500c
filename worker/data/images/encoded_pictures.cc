#include "worker/data/images/encoded_pictures.h"

#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "worker/data/files/file_stamp.h"
#include "worker/data/images/decode_picture.h"
#include "worker/data/images/tar_index.h"

namespace tributary {
namespace {

constexpr int64_t kHashedBytes = 4096;
// Largest file of a picture. A picture of kMaxPicturePixels fits.
constexpr int64_t kMaxPictureBytes = int64_t{512} << 20;

absl::Status CheckFileName(absl::string_view where, absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  for (const char* const suffix : {".jpg", ".jpeg", ".png"}) {
    if (absl::EndsWith(lower, suffix)) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(where,
                   ": is not a picture whose type is supported; expected "
                   "a name that ends in .jpg, .jpeg or .png"));
}

// Lists a folder in any order, without names that begin with a dot.
absl::StatusOr<std::vector<std::filesystem::directory_entry>> List(
    const std::string& path) {
  std::error_code error;
  std::vector<std::filesystem::directory_entry> entries;
  std::filesystem::directory_iterator next(path, error);
  for (; !error && next != std::filesystem::directory_iterator();
       next.increment(error)) {
    if (next->path().filename().string()[0] != '.') entries.push_back(*next);
  }
  if (error) {
    const std::string message =
        absl::StrCat(path, ": cannot list the folder: ", error.message());
    if (error == std::errc::no_such_file_or_directory) {
      return absl::NotFoundError(message);
    }
    return absl::InvalidArgumentError(message);
  }
  return entries;
}

absl::Status AddFile(const std::string& path, const std::string& name,
                     std::vector<EncodedPicture>* pictures) {
  TRIBUTARY_RETURN_IF_ERROR(CheckFileName(path, name));
  EncodedPicture picture = {};
  picture.path = path;
  picture.file_name = name;
  pictures->push_back(std::move(picture));
  return absl::OkStatus();
}

// Adds the pictures below the folder. `prefix` begins their names. A folder
// that a symbolic link names is not entered, because it may contain the link.
absl::Status AddFolder(const std::string& path, const std::string& prefix,
                       std::vector<EncodedPicture>* pictures) {
  TRIBUTARY_ASSIGN_OR_RETURN(const auto entries, List(path));
  for (const auto& entry : entries) {
    const std::string name =
        absl::StrCat(prefix, entry.path().filename().string());
    std::error_code error;
    if (!entry.is_directory(error)) {
      TRIBUTARY_RETURN_IF_ERROR(AddFile(entry.path().string(), name, pictures));
    } else if (!entry.is_symlink(error)) {
      TRIBUTARY_RETURN_IF_ERROR(
          AddFolder(entry.path().string(), absl::StrCat(name, "/"), pictures));
    }
  }
  return absl::OkStatus();
}

absl::Status AddClass(const std::filesystem::path& folder,
                      std::vector<EncodedPicture>* pictures) {
  TRIBUTARY_ASSIGN_OR_RETURN(const auto files, List(folder.string()));
  for (const auto& file : files) {
    EncodedPicture picture = {};
    picture.path = file.path().string();
    picture.class_name = folder.filename().string();
    picture.file_name = file.path().filename().string();
    TRIBUTARY_RETURN_IF_ERROR(CheckFileName(picture.path, picture.file_name));
    pictures->push_back(std::move(picture));
  }
  return absl::OkStatus();
}

EncodedPicture PictureOf(const RandomAccessFile& archive,
                         const TarMember& member) {
  EncodedPicture picture = {};
  picture.path = archive.path();
  picture.archive = &archive;
  picture.offset = member.offset;
  picture.size = member.size;
  return picture;
}

std::string PlaceOf(const RandomAccessFile& archive, const TarMember& member) {
  return absl::StrCat(archive.path(), ": member ", member.name, " at byte ",
                      member.offset);
}

absl::Status AddUnlabeledMember(const RandomAccessFile& archive,
                                const TarMember& member,
                                std::vector<EncodedPicture>* pictures) {
  const std::string file =
      std::filesystem::path(member.name).filename().string();
  if (absl::StartsWith(file, ".")) return absl::OkStatus();
  TRIBUTARY_RETURN_IF_ERROR(CheckFileName(PlaceOf(archive, member), file));
  pictures->push_back(PictureOf(archive, member));
  pictures->back().file_name = member.name;
  return absl::OkStatus();
}

absl::Status AddMember(const RandomAccessFile& archive, const TarMember& member,
                       std::vector<EncodedPicture>* pictures) {
  const std::filesystem::path name(member.name);
  EncodedPicture picture = PictureOf(archive, member);
  picture.class_name = name.parent_path().filename().string();
  picture.file_name = name.filename().string();
  if (absl::StartsWith(picture.file_name, ".")) return absl::OkStatus();
  const std::string where = PlaceOf(archive, member);
  if (picture.class_name.empty() || picture.class_name == ".") {
    return absl::InvalidArgumentError(absl::StrCat(
        where, ": is in no folder; expected a name such as CLASS/FILE"));
  }
  TRIBUTARY_RETURN_IF_ERROR(CheckFileName(where, picture.file_name));
  pictures->push_back(std::move(picture));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<EncodedPictures>> EncodedPictures::OpenFolders(
    absl::Span<const std::string> paths, int64_t channels,
    std::vector<std::string>* classes) {
  std::unique_ptr<EncodedPictures> opened(new EncodedPictures(channels));
  for (const std::string& path : paths) {
    TRIBUTARY_ASSIGN_OR_RETURN(const auto folders, List(path));
    for (const auto& folder : folders) {
      std::error_code error;
      if (!folder.is_directory(error)) {
        return absl::InvalidArgumentError(absl::StrCat(
            folder.path().string(),
            ": is not a folder; expected one folder per class in ", path));
      }
      TRIBUTARY_RETURN_IF_ERROR(AddClass(folder.path(), &opened->pictures_));
    }
  }
  TRIBUTARY_RETURN_IF_ERROR(opened->Label(classes));
  if (opened->pictures_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(paths[0],
                     ": contains no pictures; expected one folder "
                     "per class with JPEG or PNG files"));
  }
  return opened;
}

absl::StatusOr<std::unique_ptr<EncodedPictures>> EncodedPictures::OpenArchives(
    absl::Span<const std::string> paths, int64_t channels,
    std::vector<std::string>* classes) {
  std::unique_ptr<EncodedPictures> opened(new EncodedPictures(channels));
  for (const std::string& path : paths) {
    TRIBUTARY_RETURN_IF_ERROR(opened->AddArchive(
        path, [&opened](const RandomAccessFile& file, const TarMember& member) {
          return AddMember(file, member, &opened->pictures_);
        }));
  }
  TRIBUTARY_RETURN_IF_ERROR(opened->Label(classes));
  if (opened->pictures_.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        paths[0], ": contains no pictures; expected members CLASS/FILE"));
  }
  return opened;
}

absl::StatusOr<std::unique_ptr<EncodedPictures>> EncodedPictures::OpenUnlabeled(
    const std::string& path, int64_t channels) {
  std::unique_ptr<EncodedPictures> opened(new EncodedPictures(channels));
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    TRIBUTARY_RETURN_IF_ERROR(AddFolder(path, "", &opened->pictures_));
  } else if (absl::EndsWith(path, ".tar")) {
    TRIBUTARY_RETURN_IF_ERROR(opened->AddArchive(
        path, [&opened](const RandomAccessFile& file, const TarMember& member) {
          return AddUnlabeledMember(file, member, &opened->pictures_);
        }));
  } else {
    TRIBUTARY_RETURN_IF_ERROR(AddFile(path, path, &opened->pictures_));
  }
  if (opened->pictures_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": contains no pictures"));
  }
  opened->Sort();
  opened->labels_.assign(opened->pictures_.size(), 0);
  return opened;
}

template <typename Adder>
absl::Status EncodedPictures::AddArchive(const std::string& path,
                                         const Adder& add) {
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file,
                             RandomAccessFile::Open(path));
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::vector<TarMember> members,
      IndexTar(
          [&file](int64_t offset, int64_t count, std::string* bytes) {
            return file->Read(offset, count, bytes);
          },
          file->size(), path));
  for (const TarMember& member : members) {
    TRIBUTARY_RETURN_IF_ERROR(add(*file, member));
  }
  archives_.push_back(std::move(file));
  return absl::OkStatus();
}

void EncodedPictures::Sort() {
  std::sort(pictures_.begin(), pictures_.end(),
            [](const EncodedPicture& a, const EncodedPicture& b) {
              return std::tie(a.class_name, a.file_name, a.path, a.offset) <
                     std::tie(b.class_name, b.file_name, b.path, b.offset);
            });
}

absl::Status EncodedPictures::Label(std::vector<std::string>* classes) {
  Sort();
  if (classes->empty()) {
    for (const EncodedPicture& picture : pictures_) {
      if (classes->empty() || classes->back() != picture.class_name) {
        classes->push_back(picture.class_name);
      }
    }
  }
  for (const EncodedPicture& picture : pictures_) {
    const auto found =
        std::lower_bound(classes->begin(), classes->end(), picture.class_name);
    if (found == classes->end() || *found != picture.class_name) {
      return absl::InvalidArgumentError(absl::StrCat(
          picture.path, ": the class \"", picture.class_name,
          "\" has no pictures in the training part; rename or remove it"));
    }
    labels_.push_back(found - classes->begin());
  }
  return absl::OkStatus();
}

std::string EncodedPictures::Name(int64_t index) const {
  const EncodedPicture& picture = pictures_[static_cast<size_t>(index)];
  if (picture.archive == nullptr) return picture.path;
  return absl::StrCat(picture.path, ": member ", picture.class_name,
                      picture.class_name.empty() ? "" : "/", picture.file_name,
                      " at byte ", picture.offset);
}

template <typename Reader>
absl::Status EncodedPictures::WithFile(int64_t index,
                                       const Reader& read) const {
  const EncodedPicture& picture = pictures_[static_cast<size_t>(index)];
  if (picture.archive != nullptr) {
    return read(*picture.archive, picture.offset, picture.size);
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<RandomAccessFile> file,
                             RandomAccessFile::Open(picture.path));
  return read(*file, int64_t{0}, file->size());
}

absl::StatusOr<Picture> EncodedPictures::Read(int64_t index) const {
  std::string bytes;
  TRIBUTARY_RETURN_IF_ERROR(WithFile(
      index, [&](const RandomAccessFile& file, int64_t offset, int64_t size) {
        if (size > kMaxPictureBytes) {
          return absl::InvalidArgumentError(
              absl::StrCat(Name(index), ": has ", size, " bytes; at most ",
                           kMaxPictureBytes, " are read"));
        }
        return file.Read(offset, size, &bytes);
      }));
  absl::StatusOr<Picture> picture = DecodePicture(bytes, channels_);
  if (picture.ok()) return picture;
  return absl::Status(
      picture.status().code(),
      absl::StrCat(Name(index), ": ", picture.status().message()));
}

absl::StatusOr<uint64_t> EncodedPictures::Hash(int64_t index) const {
  const EncodedPicture& picture = pictures_[static_cast<size_t>(index)];
  std::string hashed;
  TRIBUTARY_RETURN_IF_ERROR(WithFile(
      index,
      [&](const RandomAccessFile& file, int64_t offset,
          int64_t size) -> absl::Status {
        std::string end;
        const int64_t part = std::min(size, kHashedBytes);
        TRIBUTARY_RETURN_IF_ERROR(file.Read(offset, part, &hashed));
        TRIBUTARY_RETURN_IF_ERROR(file.Read(offset + size - part, part, &end));
        absl::StrAppend(&hashed, end, picture.class_name, "/",
                        picture.file_name, "/", size);
        return absl::OkStatus();
      }));
  return XXH3_64bits(hashed.data(), hashed.size());
}

absl::optional<uint64_t> EncodedPictures::Stamp(int64_t index) const {
  const EncodedPicture& picture = pictures_[static_cast<size_t>(index)];
  const absl::optional<uint64_t> stamp = FileStamp(picture.path);
  if (!stamp.has_value()) return stamp;
  const int64_t place[] = {picture.offset, picture.size};
  return XXH3_64bits_withSeed(place, sizeof(place), *stamp);
}

}  // namespace tributary

#include "worker/data/images/cached_pictures.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/os/read_at.h"
#include "worker/data/files/data_file.h"

namespace tributary {
namespace {

constexpr char kDecodedAgain[] =
    "; other pictures are decoded each time they are read";

absl::StatusOr<int> OpenFile(const std::string& path, int flags) {
  const int file =
      open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | flags, 0666);
  if (file < 0) return DataFileError(path, "open", errno);
  return file;
}

}  // namespace

std::unique_ptr<PictureSource> CachedPictures::Wrap(
    std::unique_ptr<PictureSource> source, int64_t channels,
    const SharedCache& cache) {
  if (source->size() == 0 || !source->Stamp(0).has_value()) return source;
  uint64_t key = static_cast<uint64_t>(channels);
  for (int64_t i = 0; i < source->size(); ++i) {
    const std::string name = source->Name(i);
    key = XXH3_64bits_withSeed(name.data(), name.size(), key);
  }
  const std::string path =
      absl::StrFormat("%s/pictures-%016x", cache.folder, key);
  const absl::StatusOr<int> entries = OpenFile(path + ".index", 0);
  const absl::StatusOr<int> pixels = OpenFile(path + ".pixels", O_APPEND);
  if (entries.ok() && pixels.ok()) {
    return std::unique_ptr<PictureSource>(new CachedPictures(
        std::move(source), channels, cache, *entries, *pixels));
  }
  if (entries.ok()) close(*entries);
  if (pixels.ok()) close(*pixels);
  const absl::Status& status =
      entries.ok() ? pixels.status() : entries.status();
  cache.warn(absl::StrCat(status.message(), kDecodedAgain));
  return source;
}

CachedPictures::CachedPictures(std::unique_ptr<PictureSource> source,
                               int64_t channels, const SharedCache& cache,
                               int entries, int pixels)
    : source_(std::move(source)),
      channels_(channels),
      cache_(cache),
      entries_(entries),
      pixels_(pixels) {}

CachedPictures::~CachedPictures() {
  close(entries_);
  close(pixels_);
}

uint64_t CachedPictures::HashOf(const Entry& entry, uint64_t stamp,
                                const Picture& picture) const {
  const uint64_t numbers[] = {stamp, entry.end, entry.height, entry.width};
  return XXH3_64bits_withSeed(picture.pixels.data(), picture.pixels.size(),
                              XXH3_64bits(numbers, sizeof(numbers)));
}

absl::optional<Picture> CachedPictures::Find(int64_t index,
                                             uint64_t stamp) const {
  Entry entry;
  constexpr int64_t kEntryBytes = sizeof(entry);
  if (ReadAt(entries_, index * kEntryBytes, kEntryBytes, &entry) !=
      kEntryBytes) {
    return absl::nullopt;
  }
  Picture picture;
  picture.height = entry.height;
  picture.width = entry.width;
  picture.channels = channels_;
  if (picture.height < 1 || picture.width < 1 ||
      picture.height > kMaxPicturePixels / picture.width) {
    return absl::nullopt;
  }
  const int64_t bytes = picture.height * picture.width * channels_;
  const auto begin = static_cast<int64_t>(entry.end) - bytes;
  if (begin < 0) return absl::nullopt;
  picture.pixels.resize(static_cast<size_t>(bytes));
  if (ReadAt(pixels_, begin, bytes, picture.pixels.data()) != bytes ||
      HashOf(entry, stamp, picture) != entry.hash) {
    return absl::nullopt;
  }
  return picture;
}

absl::Status CachedPictures::Keep(int64_t index, uint64_t stamp,
                                  const Picture& picture) const {
  Entry entry;
  entry.height = static_cast<uint32_t>(picture.height);
  entry.width = static_cast<uint32_t>(picture.width);
  const size_t bytes = picture.pixels.size();
  {
    const absl::MutexLock lock(&mu_);
    const off_t size = lseek(pixels_, 0, SEEK_END);
    if (size < 0) return DataFileError(cache_.folder, "read", errno);
    if (size + static_cast<int64_t>(bytes) > cache_.most_picture_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat(cache_.folder, ": decoded pictures need more than ",
                       cache_.most_picture_bytes,
                       " bytes, and no more memory should hold them"));
    }
    // The file may take as much space as it leaves.
    TRIBUTARY_RETURN_IF_ERROR(
        CheckSpace(cache_.folder, size, static_cast<int64_t>(bytes)));
    // O_APPEND sets the position behind what it has written, whatever other
    // processes write.
    ssize_t written;
    do {
      written = write(pixels_, picture.pixels.data(), bytes);
    } while (written < 0 && errno == EINTR);
    if (written != static_cast<ssize_t>(bytes)) {
      return DataFileError(cache_.folder, "keep decoded pictures",
                           written < 0 ? errno : ENOSPC);
    }
    const off_t end = lseek(pixels_, 0, SEEK_CUR);
    if (end < 0) return DataFileError(cache_.folder, "read", errno);
    entry.end = static_cast<uint64_t>(end);
  }
  entry.hash = HashOf(entry, stamp, picture);
  const ssize_t written =
      pwrite(entries_, &entry, sizeof(entry),
             static_cast<off_t>(index) * static_cast<off_t>(sizeof(entry)));
  if (written != static_cast<ssize_t>(sizeof(entry))) {
    return DataFileError(cache_.folder, "keep decoded pictures",
                         written < 0 ? errno : ENOSPC);
  }
  return absl::OkStatus();
}

absl::StatusOr<Picture> CachedPictures::Read(int64_t index) const {
  const absl::optional<uint64_t> stamp = source_->Stamp(index);
  if (!stamp.has_value()) return source_->Read(index);
  absl::optional<Picture> kept = Find(index, *stamp);
  if (kept.has_value()) return *std::move(kept);
  TRIBUTARY_ASSIGN_OR_RETURN(Picture picture, source_->Read(index));
  // Another process may have decoded it in the meantime: the trials of a search
  // read the same pictures in the same order.
  if (full_ || source_->Stamp(index) != stamp ||
      Find(index, *stamp).has_value()) {
    return picture;
  }
  const absl::Status status = Keep(index, *stamp, picture);
  if (!status.ok() && !full_.exchange(true)) {
    cache_.warn(absl::StrCat(status.message(), kDecodedAgain));
  }
  return picture;
}

}  // namespace tributary

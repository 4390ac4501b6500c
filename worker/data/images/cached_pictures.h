// Pictures whose decoded pixels are kept in files.
#ifndef TRIBUTARY_WORKER_DATA_IMAGES_CACHED_PICTURES_H_
#define TRIBUTARY_WORKER_DATA_IMAGES_CACHED_PICTURES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "worker/data/files/shared_cache.h"
#include "worker/data/images/picture_source.h"

namespace tributary {

// Decodes a picture when it is first read, appends its pixels to a file, and
// later reads them from there. Any number of processes of this machine read and
// append at the same time. The bits are those of the source: a picture whose
// file has changed, and pixels that are not whole because a process or the
// machine has crashed, do not fit to their hash, and are decoded again. If the
// disk has no space, or SharedCache::most_picture_bytes are reached, further
// pictures are decoded as without files, after one warning. Thread-safe.
class CachedPictures final : public PictureSource {
 public:
  // Keeps the pixels in files of `cache.folder`, which exists. Their names
  // depend on the names of all pictures and on `channels`, with which `source`
  // decodes. Returns `source` itself if it has its pictures in memory and,
  // after a warning, if the files cannot be opened.
  static std::unique_ptr<PictureSource> Wrap(
      std::unique_ptr<PictureSource> source, int64_t channels,
      const SharedCache& cache);
  ~CachedPictures() override;

  int64_t size() const override { return source_->size(); }
  int64_t Label(int64_t index) const override { return source_->Label(index); }
  std::string Name(int64_t index) const override {
    return source_->Name(index);
  }
  absl::StatusOr<Picture> Read(int64_t index) const override;
  absl::StatusOr<uint64_t> Hash(int64_t index) const override {
    return source_->Hash(index);
  }

 private:
  // Where a picture's pixels are; entry `index` of the file of entries. All
  // zero if they are not kept.
  struct Entry {
    uint64_t end = 0;  // Of the pixels, in their file.
    uint32_t height = 0;
    uint32_t width = 0;
    uint64_t hash = 0;  // Of pixels, picture and entry.
  };

  CachedPictures(std::unique_ptr<PictureSource> source, int64_t channels,
                 const SharedCache& cache, int entries, int pixels);

  // Returns the hash of an entry with these pixels.
  uint64_t HashOf(const Entry& entry, uint64_t stamp,
                  const Picture& picture) const;
  // Returns the kept picture; nullopt if there is none.
  absl::optional<Picture> Find(int64_t index, uint64_t stamp) const;
  absl::Status Keep(int64_t index, uint64_t stamp,
                    const Picture& picture) const;

  const std::unique_ptr<PictureSource> source_;
  const int64_t channels_;
  const SharedCache cache_;
  // Descriptors.
  const int entries_;
  const int pixels_;
  // True after pixels did not fit, or could not be written.
  mutable std::atomic<bool> full_{false};
  // Held while pixels are appended, to know where they end.
  mutable absl::Mutex mu_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_IMAGES_CACHED_PICTURES_H_

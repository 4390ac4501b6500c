// Data set of color or gray pictures with class labels.
#ifndef TRIBUTARY_WORKER_DATA_IMAGE_DATA_SET_H_
#define TRIBUTARY_WORKER_DATA_IMAGE_DATA_SET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/files/shared_cache.h"
#include "worker/data/images/picture_source.h"
#include "worker/data/images/picture_transform.h"
#include "worker/data/sample_data_set.h"

namespace tributary {

// Reads the pictures that ImagesSpec names. Samples have shape {channels,
// height, width}. Folders and tar archives stay on the disk, and a picture is
// decoded each time it is read; all other formats are kept in memory.
//
// If a picture cannot be decoded while a batch is read, Batch::error names it.
class ImageDataSet final : public SampleDataSet {
 public:
  // Lists the pictures, and hashes them on `threads` threads. Also decodes them
  // if on_corrupt is SKIP, to leave out those that fail (see warnings), or if
  // height and width are not set, to determine their sizes. Returns NotFound if
  // a file does not exist, and InvalidArgument, naming the file or the field,
  // if the data are invalid or do not fit `spec`. `seed` is that of the job.
  // If `cache` is not null, pictures of folders and archives are decoded once
  // for all processes that share its folder (see CachedPictures).
  static absl::StatusOr<std::unique_ptr<ImageDataSet>> Open(
      const ImagesSpec& spec, uint64_t seed, int threads,
      const SharedCache* cache = nullptr);

  const DataInfo& info() const override { return info_; }
  int64_t train_samples() const override { return train_.size(); }
  int64_t evaluation_samples() const override { return held_out_.size(); }
  uint64_t fingerprint() const override { return fingerprint_; }
  // Returns a PictureEncoding as JSON.
  std::string encoding() const override { return encoding_; }

  // Returns the names of the pictures that were left out, with their errors.
  std::vector<std::string> warnings() const override;

 private:
  // The pictures of the training or the held-out part.
  struct Part {
    std::unique_ptr<PictureSource> source;  // Null if there is no such part.
    std::vector<int64_t> kept;              // Indexes in the source, ascending.

    int64_t size() const { return static_cast<int64_t>(kept.size()); }
  };
  class Opener;

  ImageDataSet(const ImagesSpec& spec, DataInfo info, uint64_t seed);

  // Reads picture `index` of the part, and checks its size (see
  // PictureTransform::Check).
  absl::StatusOr<Picture> Read(const Part& part, int64_t index) const;
  void Resize(int64_t samples, Batch* batch) const override;
  absl::Status CopySample(const Sample& sample, int64_t place,
                          Batch* batch) const override;

  const ImagesSpec spec_;
  const DataInfo info_;
  const PictureTransform transform_;
  Part train_;
  Part held_out_;
  uint64_t fingerprint_ = 0;
  std::string encoding_;
  std::vector<std::string> left_out_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_IMAGE_DATA_SET_H_

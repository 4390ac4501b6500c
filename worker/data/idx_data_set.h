// Data set of IDX files: images with class labels.
#ifndef TRIBUTARY_WORKER_DATA_IDX_DATA_SET_H_
#define TRIBUTARY_WORKER_DATA_IDX_DATA_SET_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/sample_data_set.h"

namespace tributary {

// Returns the value that a model sees for each value of a pixel: (value / 255 -
// mean) / deviation.
std::array<float, 256> ScaledPixels(const IdxSpec& spec);

// Reads the four files of MNIST, or of a data set in its format, from the
// directory that IdxSpec names: train-* is the training part, t10k-* the
// held-out part. Keeps pixels in memory as bytes and converts them to floats,
// (value / 255 - mean) / deviation, when they are read. Samples have shape {1,
// height, width}.
class IdxDataSet final : public SampleDataSet {
 public:
  // Opens and verifies the files. Of each file, opens the plain version, or the
  // `.gz` version if there is no plain one. Returns NotFound if the directory
  // or a file does not exist, and InvalidArgument if a field of `spec` or a
  // file is invalid.
  static absl::StatusOr<std::unique_ptr<IdxDataSet>> Open(const IdxSpec& spec);

  const DataInfo& info() const override { return info_; }
  int64_t train_samples() const override { return train_.samples; }
  int64_t evaluation_samples() const override { return held_out_.samples; }
  uint64_t fingerprint() const override { return fingerprint_; }

 private:
  // The images and labels of the training or the held-out part.
  struct Part {
    int64_t samples = 0;
    int64_t height = 0;
    int64_t width = 0;
    std::string images_name;
    std::string image_file;  // Whole file, including the header.
    std::string label_file;
  };

  IdxDataSet(const IdxSpec& spec, Part train, Part held_out);

  static absl::StatusOr<Part> OpenPart(const IdxSpec& spec,
                                       const std::string& prefix);
  absl::Status CopySample(const Sample& sample, int64_t place,
                          Batch* batch) const override;
  void Resize(int64_t samples, Batch* batch) const override;

  const Part train_;
  const Part held_out_;
  DataInfo info_;
  uint64_t fingerprint_;
  std::array<float, 256> scaled_;  // Feature for each pixel value.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_IDX_DATA_SET_H_

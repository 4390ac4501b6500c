// Decoded rows of a table in a file.
#ifndef TRIBUTARY_WORKER_DATA_CACHE_ROW_FILE_H_
#define TRIBUTARY_WORKER_DATA_CACHE_ROW_FILE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/data/cache/decoded_row_layout.h"
#include "worker/data/data_set.h"
#include "worker/data/formats/feature_reader.h"
#include "worker/data/sample_data_set.h"

namespace tributary {

// The samples that WriteRowFile has written. The file is mapped, so that all
// processes of the machine share its memory, which the system may use otherwise
// while no sample is read. The file may be removed, but must not be changed.
class RowFile final : public SampleDataSet {
 public:
  // `reader` has the features of the job. Returns NotFound if the file does not
  // exist, and InvalidArgument, naming the file, if it is not one that
  // WriteRowFile has written for these features.
  static absl::StatusOr<std::unique_ptr<RowFile>> Open(
      const std::string& path, const FeatureReader& reader);
  ~RowFile() override;

  const DataInfo& info() const override { return info_; }
  int64_t train_samples() const override { return parts_[0].rows; }
  int64_t evaluation_samples() const override { return parts_[1].rows; }
  uint64_t fingerprint() const override { return header_.fingerprint; }
  std::string encoding() const override {
    return std::string(encoding_, static_cast<size_t>(header_.encoding_bytes));
  }

 private:
  // The keys of a feature.
  struct Keys {
    const int64_t* ends = nullptr;  // As FeatureKeys::ends, [rows].
    int64_t count = 0;
    const uint64_t* keys = nullptr;  // [count]
  };
  // The training or the held-out part.
  struct Part {
    int64_t rows = 0;
    const char* records = nullptr;  // See DecodedRowLayout.
    std::vector<Keys> several;      // Of features with any number of keys.
  };

  RowFile(const std::string& path, void* memory, size_t bytes);

  // Reads the contents of the mapped file.
  absl::Status Parse(const FeatureReader& reader);
  absl::Status ParsePart(int64_t rows, int64_t* at, Part* part) const;
  // Returns the next `bytes` bytes, and moves `*at` to the multiple of 8 behind
  // them.
  absl::StatusOr<const char*> Take(int64_t bytes, int64_t* at) const;

  void Resize(int64_t samples, Batch* batch) const override;
  absl::Status CopySample(const Sample& sample, int64_t place,
                          Batch* batch) const override;

  const std::string path_;
  void* const memory_;
  const size_t bytes_;
  DataInfo info_;
  DecodedRowHeader header_;
  const char* one_key_ = nullptr;  // [key_features]
  const char* encoding_ = nullptr;
  DecodedRowLayout layout_;
  std::array<Part, 2> parts_;  // Training, held-out.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_CACHE_ROW_FILE_H_

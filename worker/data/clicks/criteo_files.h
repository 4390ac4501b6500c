// Clicks from files in Criteo's format.
#ifndef TRIBUTARY_WORKER_DATA_CLICKS_CRITEO_FILES_H_
#define TRIBUTARY_WORKER_DATA_CLICKS_CRITEO_FILES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/job.pb.h"
#include "worker/data/clicks/click_source.h"
#include "worker/data/formats/criteo_format.h"
#include "worker/data/formats/feature_reader.h"
#include "worker/data/formats/key_table.h"

namespace tributary {

// Keeps the samples in memory: for each, 53 bytes and its keys.
class CriteoFiles final : public ClickSource {
 public:
  // Reads the files piece by piece. `reader` has found its columns with
  // FindCriteoColumn. Returns NotFound if a file does not exist, and
  // InvalidArgument, naming the file and the line, if a file cannot be read or
  // parsed.
  static absl::StatusOr<std::unique_ptr<CriteoFiles>> Open(
      const CriteoSpec& spec, FeatureReader reader);

  int64_t samples(bool held_out) const override {
    return held_out ? test_.rows : train_.rows;
  }
  uint64_t fingerprint() const override { return fingerprint_; }
  void Read(bool held_out, int64_t index, float* numbers, int32_t* label,
            absl::Span<std::vector<uint64_t>* const> keys) const override;

 private:
  // Samples in blocks of a fixed size, so that memory grows without copies.
  struct Block {
    std::vector<float> numbers;
    std::vector<uint8_t> labels;
    KeyTable keys;
  };
  struct Part {
    int64_t rows = 0;
    std::vector<Block> blocks;
  };
  class FileReader;

  explicit CriteoFiles(FeatureReader reader);
  // Reads the files of a part, and appends what the fingerprint covers to
  // `hashed`.
  absl::Status ReadPart(
      const google::protobuf::RepeatedPtrField<std::string>& paths,
      int64_t* bytes_left, Part* part, std::string* hashed) const;
  absl::Status AppendLine(absl::string_view line, Part* part) const;

  const FeatureReader reader_;
  Part train_;
  Part test_;
  uint64_t fingerprint_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_CLICKS_CRITEO_FILES_H_

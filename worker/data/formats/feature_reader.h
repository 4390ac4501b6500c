// Reads the keys of a job's features from rows of text.
#ifndef TRIBUTARY_WORKER_DATA_FORMATS_FEATURE_READER_H_
#define TRIBUTARY_WORKER_DATA_FORMATS_FEATURE_READER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/job.pb.h"
#include "worker/data/formats/feature_hash.h"

namespace tributary {

// Converts the columns that SparseSpec.feature names to keys. Immutable and
// therefore thread-safe.
class FeatureReader {
 public:
  // Returns the index of the column that a job calls `column`, or an error. The
  // job's field `field` contains the name.
  using FindColumn = std::function<absl::StatusOr<int64_t>(
      const std::string& field, const std::string& column)>;

  // Has no features.
  FeatureReader() = default;
  // Returns InvalidArgument if a feature's table does not exist, and the errors
  // of `find`.
  static absl::StatusOr<FeatureReader> Create(const SparseSpec& spec,
                                              const FindColumn& find);

  // Returns the number of features.
  size_t size() const { return features_.size(); }
  // Returns the dim of each feature's table.
  const std::vector<int64_t>& dims() const { return dims_; }
  const std::vector<std::string>& names() const { return names_; }
  // Returns the indexes of the columns that the features use, in ascending
  // order.
  const std::vector<int64_t>& columns() const { return columns_; }
  // Returns true if the feature has exactly one key in each row.
  bool HasOneKey(size_t feature) const {
    return features_[feature].separator == kNone;
  }

  // Appends the keys of a feature in a row to `keys`. texts[i] is the text of
  // column columns()[i], arbitrary bytes. Returns InvalidArgument, naming the
  // column, if a text is not a key of a feature with integer_keys; `keys` may
  // then have some keys of the row.
  absl::Status AppendKeys(size_t feature,
                          absl::Span<const absl::string_view> texts,
                          std::vector<uint64_t>* keys) const;

 private:
  static constexpr char kNone = '\0';

  struct Feature {
    FeatureHash hash{""};
    std::vector<size_t> places;  // Indexes of columns_; several for a cross.
    char separator = kNone;
    bool integer_keys = false;
    std::string column;  // As the job calls it.
  };

  static absl::Status AppendKey(const Feature& feature, absl::string_view text,
                                std::vector<uint64_t>* keys);

  std::vector<Feature> features_;
  std::vector<int64_t> dims_;
  std::vector<std::string> names_;
  std::vector<int64_t> columns_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_FORMATS_FEATURE_READER_H_

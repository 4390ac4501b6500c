// The keys of the rows of a file, in memory.
#ifndef TRIBUTARY_WORKER_DATA_FORMATS_KEY_TABLE_H_
#define TRIBUTARY_WORKER_DATA_FORMATS_KEY_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/data/formats/feature_reader.h"

namespace tributary {

// Holds the keys of all features for each row: 8 bytes for each key, and 8
// bytes for the number of keys of a feature with a separator.
// Thread-compatible.
class KeyTable {
 public:
  // `reader` must outlive the calls of AppendRow.
  explicit KeyTable(const FeatureReader& reader);
  KeyTable() = default;  // Has no features.

  // Allocates memory for this number of rows with one key for each feature.
  void Reserve(int64_t rows);
  // Appends a row; see FeatureReader::AppendKeys. After an error, the table
  // must not be used.
  absl::Status AppendRow(const FeatureReader& reader,
                         absl::Span<const absl::string_view> texts);

  // Returns the keys of a feature in a row. The result is valid until a row is
  // appended.
  absl::Span<const uint64_t> Keys(int64_t row, size_t feature) const;

 private:
  struct Several {
    std::vector<uint64_t> keys;
    std::vector<int64_t> ends;  // As FeatureKeys::ends.
  };
  // Where the keys of a feature are.
  struct Place {
    bool one_key = true;
    size_t index = 0;  // Within a row of keys_, or of several_.
  };

  std::vector<Place> places_;
  // The keys of features with one key in each row, row by row, so that a row is
  // in few cache lines.
  std::vector<uint64_t> keys_;
  size_t keys_per_row_ = 0;
  std::vector<Several> several_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_FORMATS_KEY_TABLE_H_

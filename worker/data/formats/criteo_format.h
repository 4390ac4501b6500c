// Parser for lines of Criteo's data sets of clicks.
#ifndef TRIBUTARY_WORKER_DATA_FORMATS_CRITEO_FORMAT_H_
#define TRIBUTARY_WORKER_DATA_FORMATS_CRITEO_FORMAT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tributary {

inline constexpr int kCriteoNumbers = 13;
inline constexpr int kCriteoCategories = 26;
// The columns are the label, the numbers I1 to I13, and the categories C1 to
// C26.
inline constexpr int kCriteoColumns = 1 + kCriteoNumbers + kCriteoCategories;
// Maximum length of a line in bytes. Real lines have about 250.
inline constexpr int64_t kMaxCriteoLineBytes = 1 << 16;

struct CriteoLine {
  int32_t label = 0;                           // 0 or 1.
  std::array<float, kCriteoNumbers> features;  // ln(1 + max(number, 0))
  // The texts of all columns, which are views of the line.
  std::array<absl::string_view, kCriteoColumns> texts;
};

// Parses a line without its end. A pure function that accepts arbitrary bytes.
// Returns InvalidArgument, naming the column, if the line is malformed.
absl::Status ParseCriteoLine(absl::string_view line, CriteoLine* parsed);

// Returns the index of the column "I1" to "I13", "C1" to "C26", or "1" to "39".
// Returns InvalidArgument, naming the job's field `field`, for any other text.
absl::StatusOr<int64_t> FindCriteoColumn(const std::string& field,
                                         const std::string& column);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_FORMATS_CRITEO_FORMAT_H_

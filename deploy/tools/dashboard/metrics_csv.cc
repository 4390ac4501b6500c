#include "deploy/tools/dashboard/metrics_csv.h"

#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tributary {

std::string MetricsCsv(const std::vector<MetricsIndex::Line>& lines) {
  constexpr auto& kFields = MetricsIndex::kFields;
  const auto is_shown = [](size_t field) {
    return kFields[field] != "resources_count";
  };
  std::string csv = "step";
  for (size_t i = 0; i < kFields.size(); ++i) {
    if (is_shown(i)) absl::StrAppend(&csv, ",", kFields[i]);
  }
  csv += "\r\n";
  for (const MetricsIndex::Line& line : lines) {
    absl::StrAppend(&csv, line.step);
    for (size_t i = 0; i < kFields.size(); ++i) {
      if (!is_shown(i)) continue;
      csv += ',';
      // Nine digits distinguish all float32 numbers.
      if (!std::isnan(line.values[i])) {
        absl::StrAppendFormat(&csv, "%.9g", line.values[i]);
      }
    }
    csv += "\r\n";
  }
  return csv;
}

}  // namespace tributary

// Formats metrics in the text exposition format of Prometheus, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats).
#ifndef TRIBUTARY_COMMON_METRICS_METRICS_PAGE_H_
#define TRIBUTARY_COMMON_METRICS_METRICS_PAGE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/base/latency_histogram.h"

namespace tributary {

// Builds the text of one page of metrics. Names and help texts are not escaped
// and must follow Prometheus' rules. The values of labels are escaped and may
// contain any text. Not thread-safe.
class MetricsPage {
 public:
  using Labels = std::vector<std::pair<absl::string_view, std::string>>;

  // These functions begin a family of metrics; the following calls of Add
  // belong to it. The name of a counter must end in "_total". A family may
  // begin only once.
  void BeginCounter(absl::string_view name, absl::string_view help);
  void BeginGauge(absl::string_view name, absl::string_view help);
  // Adds a value to the current family. NaN and infinity are allowed.
  void Add(double value, const Labels& labels = {});

  // These functions add a family with one value, which has no labels.
  void AddCounter(absl::string_view name, absl::string_view help, double value);
  void AddGauge(absl::string_view name, absl::string_view help, double value);
  // Adds a family with one histogram of durations in seconds.
  void AddHistogram(absl::string_view name, absl::string_view help,
                    const LatencyHistogram& histogram);

  const std::string& text() const { return text_; }

 private:
  void Begin(absl::string_view name, absl::string_view help,
             absl::string_view type);
  void AddLine(absl::string_view suffix, double value, const Labels& labels);

  std::string name_;
  std::string text_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_METRICS_METRICS_PAGE_H_

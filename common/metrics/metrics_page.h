// Metrics as text in the exposition format of Prometheus, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats).
#ifndef TRIBUTARY_COMMON_METRICS_METRICS_PAGE_H_
#define TRIBUTARY_COMMON_METRICS_METRICS_PAGE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/metrics/histogram.h"

namespace tributary {

// Collects the values of one page. Names and help are ours, and must follow
// Prometheus' rules; the values of labels may contain anything. Not
// thread-safe.
class MetricsPage {
 public:
  using Labels = std::vector<std::pair<absl::string_view, std::string>>;

  // Begin a family of metrics, to which the following calls of Add belong. The
  // name of a counter ends in "_total". A family may begin only once.
  void BeginCounter(absl::string_view name, absl::string_view help);
  void BeginGauge(absl::string_view name, absl::string_view help);
  // Adds a value to the family. NaN and infinity are allowed.
  void Add(double value, const Labels& labels = {});

  // Adds a family of one value.
  void AddCounter(absl::string_view name, absl::string_view help, double value);
  void AddGauge(absl::string_view name, absl::string_view help, double value);
  // Adds a family of one histogram of seconds.
  void AddHistogram(absl::string_view name, absl::string_view help,
                    const Histogram& histogram);

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

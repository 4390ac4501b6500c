#include "common/metrics/metrics_page.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace tributary {
namespace {

std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return absl::StrFormat("%.17g", value);
}

}  // namespace

void MetricsPage::Begin(absl::string_view name, absl::string_view help,
                        absl::string_view type) {
  name_ = std::string(name);
  absl::StrAppend(&text_, "# HELP ", name, " ", help, "\n# TYPE ", name, " ",
                  type, "\n");
}

void MetricsPage::BeginCounter(absl::string_view name, absl::string_view help) {
  Begin(name, help, "counter");
}

void MetricsPage::BeginGauge(absl::string_view name, absl::string_view help) {
  Begin(name, help, "gauge");
}

void MetricsPage::Add(double value, const Labels& labels) {
  AddLine("", value, labels);
}

void MetricsPage::AddLine(absl::string_view suffix, double value,
                          const Labels& labels) {
  absl::StrAppend(&text_, name_, suffix);
  const char* separator = "{";
  for (const auto& [name, label] : labels) {
    absl::StrAppend(&text_, separator, name, "=\"",
                    absl::StrReplaceAll(
                        label, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}),
                    "\"");
    separator = ",";
  }
  absl::StrAppend(&text_, labels.empty() ? "" : "}", " ", NumberText(value),
                  "\n");
}

void MetricsPage::AddCounter(absl::string_view name, absl::string_view help,
                             double value) {
  BeginCounter(name, help);
  Add(value);
}

void MetricsPage::AddGauge(absl::string_view name, absl::string_view help,
                           double value) {
  BeginGauge(name, help);
  Add(value);
}

void MetricsPage::AddHistogram(absl::string_view name, absl::string_view help,
                               const Histogram& histogram) {
  Begin(name, help, "histogram");
  int64_t count = 0;
  for (size_t i = 0; i < histogram.counts().size(); ++i) {
    count += histogram.counts()[i];
    const std::string bound = i < Histogram::kBounds.size()
                                  ? absl::StrCat(Histogram::kBounds[i])
                                  : "+Inf";
    AddLine("_bucket", static_cast<double>(count), {{"le", bound}});
  }
  AddLine("_sum", histogram.sum(), {});
  AddLine("_count", static_cast<double>(count), {});
}

}  // namespace tributary

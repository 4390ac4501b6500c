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
                               const LatencyHistogram& histogram) {
  Begin(name, help, "histogram");
  for (size_t i = 0; i < LatencyHistogram::kBounds.size(); ++i) {
    AddLine("_bucket", static_cast<double>(histogram.CountUpTo(i)),
            {{"le", absl::StrCat(LatencyHistogram::kBounds[i])}});
  }
  const auto count = static_cast<double>(histogram.count());
  AddLine("_bucket", count, {{"le", "+Inf"}});
  AddLine("_sum", absl::ToDoubleSeconds(histogram.sum()), {});
  AddLine("_count", count, {});
}

}  // namespace tributary

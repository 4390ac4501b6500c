#include "deploy/tools/dashboard/series.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;
using Line = MetricsIndex::Line;

constexpr size_t kEpoch = MetricsIndex::FieldIndex("epoch");
constexpr size_t kSeconds = MetricsIndex::FieldIndex("seconds");
constexpr size_t kEvaluationLoss = MetricsIndex::FieldIndex("evaluation_loss");
constexpr size_t kEvaluationAccuracy =
    MetricsIndex::FieldIndex("evaluation_accuracy");

// The mean, the smallest and the largest of the values that are finite.
struct Range {
  void Add(double value) {
    if (!std::isfinite(value)) return;
    sum += value;
    least = std::min(least, value);
    most = std::max(most, value);
    ++count;
  }
  double mean() const {
    if (count == 0) return std::numeric_limits<double>::quiet_NaN();
    // Rounding must not move the mean of equal values.
    return std::min(std::max(sum / static_cast<double>(count), least), most);
  }

  double sum = 0;
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
  int64_t count = 0;
};

}  // namespace

nlohmann::ordered_json SeriesOf(const MetricsIndex& index, int64_t from,
                                int64_t to, int points) {
  std::vector<const Line*> training, evaluations;
  for (const Line& line : index.lines()) {
    if (line.step < from || line.step > to) continue;
    (line.is_evaluation ? evaluations : training).push_back(&line);
  }
  Json series;
  series["lines"] = index.lines().size();
  series["generation"] = index.generation();
  series["first_step"] = index.lines().empty() ? 0 : index.lines().front().step;
  series["last_step"] = index.lines().empty() ? 0 : index.lines().back().step;
  series["newest"] = Json::object();
  for (size_t i = 0; !training.empty() && i < MetricsIndex::kFields.size();
       ++i) {
    // A value that is not finite becomes null; absent values are left out.
    if (std::isnan(training.back()->values[i])) continue;
    series["newest"][std::string(MetricsIndex::kFields[i])] =
        training.back()->values[i];
  }
  const size_t groups = std::min<size_t>(points, training.size());
  series["grouped"] = groups < training.size();
  for (const char* name : {"step", "seconds", "epoch"}) {
    series[name] = Json::array();
  }
  Json& fields = series["fields"];
  constexpr std::array<absl::string_view, 5> kShown = {
      "loss", "learning_rate", "gradient_norm", "samples_per_second",
      "step_seconds"};
  for (const absl::string_view name : kShown) {
    fields[std::string(name)] = {{"mean", Json::array()},
                                 {"min", Json::array()},
                                 {"max", Json::array()}};
  }
  for (size_t g = 0; g < groups; ++g) {
    const size_t begin = g * training.size() / groups;
    const size_t end = (g + 1) * training.size() / groups;
    const Line& last = *training[end - 1];
    series["step"].push_back(last.step);
    series["seconds"].push_back(last.values[kSeconds]);
    series["epoch"].push_back(last.values[kEpoch]);
    for (const absl::string_view name : kShown) {
      Range range;
      for (size_t i = begin; i < end; ++i) {
        range.Add(training[i]->values[MetricsIndex::FieldIndex(name)]);
      }
      Json& field = fields[std::string(name)];
      field["mean"].push_back(range.mean());
      field["min"].push_back(range.count == 0 ? range.mean() : range.least);
      field["max"].push_back(range.count == 0 ? range.mean() : range.most);
    }
  }
  Json& evaluation = series["evaluation"];
  for (const char* name : {"step", "seconds", "loss", "accuracy"}) {
    evaluation[name] = Json::array();
  }
  const size_t shown = std::min<size_t>(points, evaluations.size());
  std::vector<const Line*> chosen;
  for (size_t i = 0; i < shown; ++i) {
    const Line& line = *evaluations[(i + 1) * evaluations.size() / shown - 1];
    chosen.push_back(&line);
    evaluation["step"].push_back(line.step);
    evaluation["seconds"].push_back(line.values[kSeconds]);
    evaluation["loss"].push_back(line.values[kEvaluationLoss]);
    evaluation["accuracy"].push_back(line.values[kEvaluationAccuracy]);
  }
  evaluation["metrics"] = index.NamedMetrics(chosen);
  return series;
}

}  // namespace tributary

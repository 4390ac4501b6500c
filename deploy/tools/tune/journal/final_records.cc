#include "deploy/tools/tune/journal/final_records.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/json.h"
#include "deploy/tools/tune/journal/study_attributes.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;

std::vector<double> NumbersIn(const Json& object, const char* name) {
  std::vector<double> numbers;
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array()) return numbers;
  for (const Json& number : *found) {
    if (number.is_number()) numbers.push_back(number.get<double>());
  }
  return numbers;
}

}  // namespace

absl::optional<FinalRecord> ParseFinalRecord(const std::string& name,
                                             const Json& value) {
  const std::vector<std::string> parts = absl::StrSplit(name, ':');
  FinalRecord record;
  if (!value.is_object() || parts.size() != 4 ||
      !absl::SimpleAtoi(parts[2], &record.trial) ||
      !absl::SimpleAtoi(parts[3], &record.seed)) {
    return absl::nullopt;
  }
  TrialResult result;
  result.values = NumbersIn(value, "values");
  result.violations = NumbersIn(value, "violations");
  record.failure = StringMember(value, kFailure);
  record.ended = value.contains(kFailure) || !result.values.empty();
  if (record.ended && !value.contains(kFailure)) {
    record.result = std::move(result);
  }
  return record;
}

std::vector<int64_t> ParseFinalTrials(const Json& value) {
  std::vector<int64_t> trials;
  const auto found = value.is_object() ? value.find("trials") : value.end();
  if (found == value.end() || !found->is_array()) return trials;
  for (const Json& number : *found) {
    if (number.is_number_integer()) trials.push_back(number.get<int64_t>());
  }
  return trials;
}

}  // namespace tributary

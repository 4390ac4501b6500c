#include "deploy/tools/runs/run_listing.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

namespace tributary {
namespace {

bool IsField(absl::string_view path, absl::string_view wanted) {
  return absl::ConsumeSuffix(&path, wanted) &&
         (path.empty() || path.back() == '.');
}

bool HasValue(absl::string_view value, absl::string_view wanted) {
  double number = 0;
  double wanted_number = 0;
  if (absl::SimpleAtod(value, &number) &&
      absl::SimpleAtod(wanted, &wanted_number)) {
    return number == wanted_number;
  }
  return value == wanted || value == absl::StrCat("\"", wanted, "\"");
}

bool Meets(const RunConditions& conditions, const RunEntry& run) {
  if (!absl::StrContains(run.name, conditions.name)) return false;
  if (!conditions.state.empty() &&
      !(conditions.state == "running" ? run.live
                                      : run.state == conditions.state)) {
    return false;
  }
  return std::all_of(conditions.fields.begin(), conditions.fields.end(),
                     [&](const JobField& wanted) {
                       return std::any_of(
                           run.fields.begin(), run.fields.end(),
                           [&](const JobField& field) {
                             return IsField(field.first, wanted.first) &&
                                    HasValue(field.second, wanted.second);
                           });
                     });
}

// The value by which an order sorts, the smallest first.
struct Order {
  const char* name;
  std::function<double(const RunEntry&)> value;
};

const std::vector<Order>& NumericOrders() {
  static const auto* const orders = new std::vector<Order>{
      {"loss", [](const RunEntry& run) { return run.loss; }},
      {"evaluation", [](const RunEntry& run) { return run.evaluation_loss; }},
      {"accuracy",
       [](const RunEntry& run) { return -run.evaluation_accuracy; }},
      {"steps",
       [](const RunEntry& run) { return -static_cast<double>(run.step); }},
      {"time", [](const RunEntry& run) { return -run.seconds; }}};
  return *orders;
}

}  // namespace

std::vector<RunEntry> ListRuns(RunFolders* folders,
                               std::shared_ptr<const RunAddressRules> rules,
                               absl::Duration timeout) {
  std::vector<std::unique_ptr<RunWatch>> runs;
  for (UntrustedFolder& folder : folders->TakeNew()) {
    runs.push_back(std::make_unique<RunWatch>(std::move(folder), rules));
    runs.back()->Update();
  }
  const absl::Time deadline = absl::Now() + timeout;
  std::vector<RunEntry> entries;
  for (const std::unique_ptr<RunWatch>& run : runs) {
    if (run->poller() != nullptr) run->poller()->AwaitAnswer(deadline);
    entries.push_back(EntryOf(*run));
  }
  return entries;
}

absl::StatusOr<JobField> ParseFieldCondition(const std::string& text) {
  const size_t equal = text.find('=');
  if (equal != std::string::npos && equal > 0) {
    return JobField(text.substr(0, equal), text.substr(equal + 1));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text,
      "' is not FIELD=VALUE; write a field of the job file and its value, for "
      "example learning_rate=0.001"));
}

void SelectRuns(const RunConditions& conditions, std::vector<RunEntry>* runs) {
  runs->erase(std::remove_if(
                  runs->begin(), runs->end(),
                  [&](const RunEntry& run) { return !Meets(conditions, run); }),
              runs->end());
}

std::vector<std::string> RunOrders() {
  std::vector<std::string> names = {"date", "name"};
  for (const Order& order : NumericOrders()) names.push_back(order.name);
  return names;
}

void SortRuns(const std::string& order, std::vector<RunEntry>* runs) {
  if (order == "date") {
    std::stable_sort(runs->begin(), runs->end(), &ComesFirst);
  } else if (order == "name") {
    std::stable_sort(
        runs->begin(), runs->end(),
        [](const RunEntry& a, const RunEntry& b) { return a.name < b.name; });
  }
  for (const Order& numeric : NumericOrders()) {
    if (order != numeric.name) continue;
    std::stable_sort(
        runs->begin(), runs->end(), [&](const RunEntry& a, const RunEntry& b) {
          const double first = numeric.value(a);
          const double second = numeric.value(b);
          // NaN, an unknown value, comes last.
          return std::isnan(second) ? !std::isnan(first) : first < second;
        });
  }
}

std::vector<std::string> DifferingFields(const std::vector<RunEntry>& runs) {
  struct Values {
    size_t order = 0;
    size_t count = 0;  // Number of runs that have the field.
    std::string first;
    bool differ = false;
  };
  std::map<std::string, Values> fields;
  size_t listed = 0;  // Runs whose job file is missing are not compared.
  for (const RunEntry& run : runs) {
    if (!run.fields.empty()) ++listed;
    for (const auto& [path, value] : run.fields) {
      if (value.empty() || path == "name" ||
          absl::StartsWith(path, "output.")) {
        continue;
      }
      Values& values = fields[path];
      if (values.count == 0) {
        values.order = fields.size();
        values.first = value;
      }
      ++values.count;
      values.differ = values.differ || value != values.first;
    }
  }
  std::vector<std::pair<size_t, std::string>> differing;
  for (const auto& [path, values] : fields) {
    if (values.differ || values.count < listed) {
      differing.emplace_back(values.order, path);
    }
  }
  std::sort(differing.begin(), differing.end());
  std::vector<std::string> paths;
  for (const auto& [order, path] : differing) paths.push_back(path);
  return paths;
}

}  // namespace tributary

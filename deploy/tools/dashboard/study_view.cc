#include "deploy/tools/dashboard/study_view.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/json.h"
#include "common/base/monotonic_clock.h"
#include "deploy/tools/dashboard/run_view.h"
#include "deploy/tools/tune/journal/final_records.h"
#include "deploy/tools/tune/journal/journal_lines.h"
#include "deploy/tools/tune/journal/study_attributes.h"
#include "deploy/tools/tune/search/parameter_importance.h"
#include "deploy/tools/tune/search/search_file.h"
#include "deploy/tools/tune/search/trial_result.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kSearchName[] = "search.textproto";
constexpr char kJournalName[] = "study.journal";
constexpr int64_t kMaxSearchFileBytes = 1 << 20;
constexpr int64_t kJournalBlockBytes = 1 << 20;
constexpr absl::Duration kMostReading = absl::Milliseconds(500);
// Between two trials, no trial is running.
constexpr absl::Duration kLately = absl::Minutes(2);
constexpr size_t kMaxReasonBytes = 500;
constexpr size_t kMaxBest = 1000;
// The key of the results of complete trials among those of rungs.
constexpr int64_t kAtEnd = std::numeric_limits<int64_t>::max();

const char* StateName(JournalState state) {
  switch (state) {
    case JournalState::kRunning:
      return "running";
    case JournalState::kComplete:
      return "complete";
    case JournalState::kPruned:
      return "pruned";
    case JournalState::kFailed:
      return "failed";
    case JournalState::kWaiting:
      return "waiting";
  }
  return "";
}

Json ParameterJson(const SearchParameterSpec& parameter) {
  Json json = {{"path", parameter.path()}};
  if (parameter.has_choice()) {
    json["kind"] = "choice";
    json["choices"] = Json::array();
    for (const std::string& value : parameter.choice().value()) {
      json["choices"].push_back(value);
    }
  } else if (parameter.has_integer()) {
    json.update({{"kind", "integer"},
                 {"low", parameter.integer().low()},
                 {"high", parameter.integer().high()},
                 {"log", parameter.integer().log()}});
  } else {
    json.update({{"kind", "number"},
                 {"low", parameter.number().low()},
                 {"high", parameter.number().high()},
                 {"log", parameter.number().log()}});
  }
  return json;
}

Json FinalJson(const FinalStage& final_stage) {
  Json candidates = Json::array();
  for (const FinalCandidate& candidate : final_stage.Ranking()) {
    Json values = Json::array();
    for (const absl::optional<TrialResult>& result : candidate.results) {
      values.push_back(result.has_value() ? Json(result->values[0]) : Json());
    }
    const int64_t good = candidate.ended - candidate.failed;
    candidates.push_back(
        {{"trial", candidate.trial},
         {"values", values},
         {"failed", candidate.failed},
         {"ended", candidate.ended},
         {"mean", good > 0 ? Json(candidate.mean.values[0]) : Json()},
         {"deviation", good > 1 ? Json(candidate.deviation) : Json()}});
  }
  return {{"done", final_stage.Done()}, {"trials", candidates}};
}

}  // namespace

StudyView::StudyView(UntrustedFolder folder, bool named)
    : folder_(std::move(folder)),
      named_(named),
      key_(RunKeyOf(folder_.path())) {}

bool StudyView::IsStudy(const UntrustedFolder& folder) {
  return folder.Look(kSearchName).ok() && folder.Look(kJournalName).ok();
}

void StudyView::Update() {
  if (!search_.has_value()) ReadSearch();
  if (search_.has_value()) ReadJournal();
}

void StudyView::ReadSearch() {
  const absl::StatusOr<std::string> text =
      folder_.Read(kSearchName, kMaxSearchFileBytes);
  if (!text.ok()) {
    search_problem_ = std::string(text.status().message());
    return;
  }
  absl::StatusOr<SearchSpec> search =
      ParseSearch(*text, folder_.PathOf(kSearchName));
  const absl::Status valid =
      search.ok() ? ValidateSearch(*search) : search.status();
  search_problem_ = std::string(valid.message());
  if (!valid.ok()) return;
  search_ = *std::move(search);
  space_.emplace(*search_);
}

void StudyView::ReadJournal() {
  const absl::StatusOr<InputFile> file = folder_.Open(kJournalName);
  if (!file.ok()) {
    journal_problem_ = std::string(file.status().message());
    return;
  }
  const InputFile::Facts& facts = file->facts();
  if (replay_ == nullptr || facts.inode != facts_.inode ||
      facts.bytes < offset_) {
    replay_ = std::make_unique<JournalReplay>(search_->name());
    offset_ = lines_ = 0;
  }
  facts_ = facts;
  journal_problem_.clear();
  if (facts.bytes > kMaxJournalBytes) {
    journal_problem_ =
        absl::StrCat(folder_.PathOf(kJournalName), " has more than ",
                     kMaxJournalBytes >> 20, " MiB");
    return;
  }
  const absl::Time deadline = MonotonicNow() + kMostReading;
  std::vector<JournalEvent> events;
  int64_t size = kJournalBlockBytes;
  while (offset_ < facts.bytes && MonotonicNow() < deadline) {
    const std::string block =
        file->Read(offset_, std::min(size, facts.bytes - offset_));
    const size_t end = block.rfind('\n');
    if (end == std::string::npos) {
      // The last line is not complete, or longer than a block.
      if (offset_ + static_cast<int64_t>(block.size()) >= facts.bytes) return;
      size *= 2;
      continue;
    }
    size_t begin = 0;
    while (begin <= end) {
      const size_t newline = block.find('\n', begin);
      const absl::Status applied = replay_->Apply(
          absl::string_view(block).substr(begin, newline - begin), &events);
      events.clear();
      if (!applied.ok()) {
        journal_problem_ = absl::StrCat(folder_.PathOf(kJournalName), ":",
                                        lines_ + 1, " ", applied.message());
        return;
      }
      ++lines_;
      offset_ += static_cast<int64_t>(newline + 1 - begin);
      begin = newline + 1;
    }
    size = kJournalBlockBytes;
  }
}

nlohmann::ordered_json StudyView::Overview() {
  Update();
  const std::string path = folder_.path();
  bool live = absl::Now() - facts_.modified < kLately;
  if (replay_ != nullptr) {
    for (const JournalTrial& trial : replay_->trials()) {
      live |= !trial.finished();
    }
  }
  return {{"key", key_},
          {"name", search_.has_value() && !search_->name().empty()
                       ? search_->name()
                       : path.substr(path.rfind('/') + 1)},
          {"path", path},
          {"named", named_},
          {"trials", replay_ == nullptr ? 0 : replay_->trials().size()},
          {"lines", lines_},
          {"live", live},
          {"problem",
           search_problem_.empty() ? journal_problem_ : search_problem_}};
}

absl::optional<SearchPoint> StudyView::PointOf(
    const JournalTrial& trial) const {
  SearchPoint point(space_->size());
  size_t found = 0;
  for (int i = 0; i < space_->size(); ++i) {
    const SearchParameterSpec& parameter = space_->parameter(i);
    const auto value = trial.parameters.find(parameter.path());
    if (value == trial.parameters.end()) continue;
    ++found;
    point[i] = value->second;
    // Indexes have the meaning of the search only with its choices.
    const auto distribution = trial.distributions.find(parameter.path());
    if (parameter.has_choice() &&
        (distribution == trial.distributions.end() ||
         ParseOrderedJson(distribution->second) !=
             ParseOrderedJson(DistributionJson(parameter)))) {
      return absl::nullopt;
    }
  }
  if (found != trial.parameters.size() || !space_->Contains(point)) {
    return absl::nullopt;
  }
  return point;
}

bool StudyView::IsViolated(const JournalTrial& trial) {
  for (const auto& [name, value] : trial.system_attributes.items()) {
    if (absl::StartsWith(name, kConstraintPrefix) && value.is_number() &&
        value.get<double>() > 0) {
      return true;
    }
  }
  return false;
}

std::vector<double> StudyView::ValuesOf(const JournalTrial& trial) const {
  const bool usable =
      trial.state == JournalState::kComplete &&
      trial.values.size() == static_cast<size_t>(search_->objective_size()) &&
      std::all_of(trial.values.begin(), trial.values.end(),
                  [](double value) { return std::isfinite(value); });
  return usable ? trial.values : std::vector<double>();
}

TrialResult StudyView::ResultOf(const JournalTrial& trial) const {
  TrialResult result{ValuesOf(trial), {}};
  for (const auto& [name, value] : trial.system_attributes.items()) {
    if (absl::StartsWith(name, kConstraintPrefix) && value.is_number()) {
      result.violations.push_back(value.get<double>());
    }
  }
  return result;
}

absl::optional<FinalStage> StudyView::ReadFinal() const {
  const Json& attributes = replay_->user_attributes();
  const auto listed = attributes.find(kFinalTrials);
  if (!search_->has_final() || listed == attributes.end()) return absl::nullopt;
  FinalStage stage(search_->final(),
                   search_->objective(0).goal() == ObjectiveSpec::MAXIMIZE,
                   /*steps=*/1);
  std::vector<int64_t> trials;
  std::vector<absl::optional<TrialResult>> results;
  for (const int64_t number : ParseFinalTrials(*listed)) {
    if (number < 0 ||
        number >= static_cast<int64_t>(replay_->trials().size())) {
      continue;
    }
    trials.push_back(number);
    // The search itself has computed the first seed, unless another program
    // has.
    const JournalTrial& trial = replay_->trials()[number];
    results.emplace_back();
    if (trial.user_attributes.contains(kWeightsDigest) &&
        !ValuesOf(trial).empty()) {
      results.back() = ResultOf(trial);
    }
  }
  stage.Begin(trials, results);
  for (const auto& [name, value] : attributes.items()) {
    if (!absl::StartsWith(name, kFinalPrefix)) continue;
    absl::optional<FinalRecord> record = ParseFinalRecord(name, value);
    if (record.has_value() && record->ended) {
      stage.Report(record->trial, record->seed, std::move(record->result));
    }
  }
  return stage;
}

std::vector<size_t> StudyView::Best() const {
  std::vector<bool> maximize;
  for (const ObjectiveSpec& objective : search_->objective()) {
    maximize.push_back(objective.goal() == ObjectiveSpec::MAXIMIZE);
  }
  std::vector<std::pair<size_t, TrialResult>> best;
  const std::vector<JournalTrial>& trials = replay_->trials();
  for (size_t n = 0; n < trials.size(); ++n) {
    TrialResult result = ResultOf(trials[n]);
    if (result.values.empty()) continue;
    const auto is_better = [&](const TrialResult& a, const TrialResult& b) {
      return IsBetter(a, b, maximize);
    };
    // With one objective, the first of equal trials is the best.
    if (std::any_of(best.begin(), best.end(), [&](const auto& other) {
          return is_better(other.second, result) ||
                 (maximize.size() == 1 && !is_better(result, other.second));
        })) {
      continue;
    }
    best.erase(std::remove_if(best.begin(), best.end(),
                              [&](const auto& other) {
                                return is_better(result, other.second);
                              }),
               best.end());
    best.emplace_back(n, std::move(result));
    if (best.size() == kMaxBest) break;
  }
  std::vector<size_t> numbers;
  for (const auto& [number, result] : best) numbers.push_back(number);
  return numbers;
}

nlohmann::ordered_json StudyView::TrialJson(size_t number) const {
  const JournalTrial& trial = replay_->trials()[number];
  Json json = {
      {"number", number},
      {"state", StateName(trial.state)},
      {"values", ValuesOf(trial)},
      {"steps", Json::array()},
      {"results", Json::array()},
      {"point", nullptr},
      {"violated", IsViolated(trial)},
      {"failure", StringMember(trial.user_attributes, kFailure)
                      .substr(0, kMaxReasonBytes)},
      {"run", RunKeyOf(absl::StrFormat("%s/%05d", TrialsFolder(), number))}};
  for (const auto& [step, value] : trial.intermediate_values) {
    json["steps"].push_back(step);
    json["results"].push_back(value);
  }
  const absl::optional<SearchPoint> point = PointOf(trial);
  if (!point.has_value()) return json;
  json["point"] = Json::array();
  for (const absl::optional<double>& value : *point) {
    json["point"].push_back(value.has_value() ? Json(*value) : Json(nullptr));
  }
  return json;
}

nlohmann::ordered_json StudyView::ImportanceOf(int objective) const {
  // Trials are compared after the same number of steps.
  std::map<int64_t, std::vector<ScoredPoint>> by_steps;
  const double sign =
      search_->objective(objective).goal() == ObjectiveSpec::MAXIMIZE ? -1 : 1;
  for (const JournalTrial& trial : replay_->trials()) {
    const absl::optional<SearchPoint> point = PointOf(trial);
    if (!point.has_value()) continue;
    const std::vector<double> values = ValuesOf(trial);
    if (!values.empty()) {
      by_steps[kAtEnd].push_back({*point, sign * values[objective]});
    }
    if (search_->objective_size() > 1) continue;
    for (const auto& [step, value] : trial.intermediate_values) {
      if (std::isfinite(value))
        by_steps[step].push_back({*point, sign * value});
    }
  }
  if (by_steps.empty()) return nullptr;
  auto chosen = by_steps.begin();
  for (auto level = by_steps.begin(); level != by_steps.end(); ++level) {
    if (level->second.size() >=
        std::min(kEnoughTrials, chosen->second.size())) {
      chosen = level;
    }
  }
  return {
      {"steps", chosen->first == kAtEnd ? Json(nullptr) : Json(chosen->first)},
      {"trials", chosen->second.size()},
      {"values", ParameterImportances(*space_, chosen->second)}};
}

nlohmann::ordered_json StudyView::Details() {
  Json json = Overview();
  for (const char* const name :
       {"objectives", "parameters", "trials", "best", "importance"}) {
    json[name] = Json::array();
  }
  json["final"] = nullptr;
  if (replay_ == nullptr) return json;
  for (const ObjectiveSpec& objective : search_->objective()) {
    json["objectives"].push_back(
        {{"metric", objective.metric()},
         {"maximize", objective.goal() == ObjectiveSpec::MAXIMIZE}});
  }
  for (int i = 0; i < space_->size(); ++i) {
    json["parameters"].push_back(ParameterJson(space_->parameter(i)));
  }
  const size_t count = replay_->trials().size();
  for (size_t n = count - std::min(count, kMaxTrials); n < count; ++n) {
    json["trials"].push_back(TrialJson(n));
  }
  json["best"] = Best();
  const absl::optional<FinalStage> final_stage = ReadFinal();
  if (final_stage.has_value()) {
    json["final"] = FinalJson(*final_stage);
    const std::vector<FinalCandidate> ranking = final_stage->Ranking();
    if (final_stage->Done() && !ranking.empty()) {
      json["best"] = {ranking.front().trial};
    }
  }
  for (int i = 0; i < search_->objective_size(); ++i) {
    json["importance"].push_back(ImportanceOf(i));
  }
  return json;
}

}  // namespace tributary

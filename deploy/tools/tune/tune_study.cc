#include "deploy/tools/tune/tune_study.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "common/os/file.h"
#include "common/text/counted.h"
#include "deploy/tools/tune/journal/journal_lines.h"
#include "deploy/tools/tune/journal/study_attributes.h"
#include "deploy/tools/tune/search/search_file.h"
#include "deploy/tools/tune/search/study_plan.h"
#include "deploy/tools/tune/trial_job.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxFileBytes = 1 << 20;

std::string SearchPath(const std::string& folder) {
  return absl::StrCat(folder, "/search.textproto");
}
std::string JobPath(const std::string& folder) {
  return absl::StrCat(folder, "/job.textproto.in");
}
std::string JournalPath(const std::string& folder) {
  return absl::StrCat(folder, "/study.journal");
}
std::string TrialsPath(const std::string& folder) {
  return absl::StrCat(folder, "/trials");
}

std::string FinalRunsPath(const std::string& folder) {
  return absl::StrCat(folder, "/final-runs");
}

std::vector<double> NumbersIn(const Json& object, const char* name) {
  std::vector<double> numbers;
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array()) return numbers;
  for (const Json& number : *found) {
    if (number.is_number()) numbers.push_back(number.get<double>());
  }
  return numbers;
}

// Returns true if Optuna's distribution has values of the same kind as the
// parameter. Choices must be the same, in the same order, as in Optuna.
bool IsOfKind(const SearchParameterSpec& parameter,
              const std::string& distribution) {
  const Json theirs = ParseOrderedJson(distribution);
  const Json ours = ParseOrderedJson(DistributionJson(parameter));
  return StringMember(theirs, "name") == StringMember(ours, "name") &&
         (!parameter.has_choice() || theirs == ours);
}

}  // namespace

bool TuneStudy::Exists(const std::string& folder) {
  return PathExists(SearchPath(folder)) && PathExists(JournalPath(folder));
}

std::vector<std::string> TuneStudy::FilesIn(const std::string& folder) {
  std::vector<std::string> found;
  for (const std::string& path :
       {SearchPath(folder), JobPath(folder), JournalPath(folder),
        JournalPath(folder) + ".lock", TrialsPath(folder),
        FinalRunsPath(folder)}) {
    std::error_code ignored;
    const auto status = std::filesystem::symlink_status(path, ignored);
    if (std::filesystem::exists(status)) found.push_back(path);
  }
  return found;
}

absl::Status TuneStudy::Create(const std::string& folder,
                               const SearchSpec& search,
                               const std::string& job_text,
                               const std::string& import) {
  TRIBUTARY_ASSIGN_OR_RETURN(const JobSpec job, JobToSearch(job_text, search));
  std::error_code ignored;
  for (const std::string& path : FilesIn(folder)) {
    std::filesystem::remove_all(path, ignored);
  }
  if (!job_text.empty()) {
    TRIBUTARY_RETURN_IF_ERROR(WriteFileAtomically(JobPath(folder), {job_text}));
  }
  if (!import.empty()) {
    TRIBUTARY_ASSIGN_OR_RETURN(const std::string lines,
                               ReadFile(import, INT64_MAX));
    TRIBUTARY_RETURN_IF_ERROR(
        WriteFileAtomically(JournalPath(folder), {lines}));
  }
  StudyJournal journal(JournalPath(folder), search.name(), nullptr);
  TRIBUTARY_RETURN_IF_ERROR(journal.Read());
  std::vector<bool> maximize;
  std::vector<int> directions;
  for (const ObjectiveSpec& objective : search.objective()) {
    maximize.push_back(objective.goal() == ObjectiveSpec::MAXIMIZE);
    directions.push_back(maximize.back() ? 2 : 1);
  }
  SearchSpec kept = search;
  kept.set_name(search.has_name() ? search.name() : job.name());
  if (journal.replay().exists()) {
    if (journal.replay().directions() != directions) {
      return absl::InvalidArgumentError(
          absl::StrCat(import, ": its study ", journal.replay().name(),
                       " does not have the objectives of the search"));
    }
    kept.set_name(journal.replay().name());
  } else if (!import.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        import, ": has no study",
        search.has_name() ? absl::StrCat(" ", search.name()) : ""));
  } else {
    TRIBUTARY_RETURN_IF_ERROR(journal.Append(
        {CreateStudyLine(journal.worker(), kept.name(), maximize)}));
  }
  // The last file: it makes the study exist.
  return WriteFileAtomically(SearchPath(folder), {PrintSearch(kept)});
}

absl::StatusOr<std::unique_ptr<TuneStudy>> TuneStudy::Open(
    const std::string& folder) {
  if (!Exists(folder)) {
    return absl::NotFoundError(absl::StrCat(
        folder,
        " is not the folder of a study, which `tributary tune` prints"));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(SearchSpec search, LoadSearch(SearchPath(folder)));
  std::unique_ptr<TuneStudy> study(new TuneStudy(folder, std::move(search)));
  TRIBUTARY_RETURN_IF_ERROR(study->Load());
  return study;
}

absl::Status TuneStudy::Load() {
  if (PathExists(JobPath(folder_))) {
    TRIBUTARY_ASSIGN_OR_RETURN(job_text_,
                               ReadFile(JobPath(folder_), kMaxFileBytes));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(job_, JobToSearch(job_text_, search_));
  TRIBUTARY_ASSIGN_OR_RETURN(PointSampler sampler,
                             PointSampler::Create(search_, &space_));
  sampler_.emplace(std::move(sampler));
  TRIBUTARY_ASSIGN_OR_RETURN(
      StudyPlan plan,
      MakeStudyPlan(search_, job_.steps(),
                    ResolveExchange(job_).steps_per_round, sampler_->count()));
  for (const Bracket& bracket : plan.brackets) {
    TRIBUTARY_RETURN_IF_ERROR(SegmentJob(job_, bracket.rungs.front()).status());
  }
  study_ = std::make_unique<Study>(std::move(plan));
  if (search_.has_final()) {
    final_.emplace(search_.final(), study_->plan().maximize[0], job_.steps());
  }
  journal_ = std::make_unique<StudyJournal>(
      JournalPath(folder_), search_.name(),
      [this](const JournalEvent& event) { return Apply(event); });
  return journal_->Read();
}

std::string TuneStudy::TrialFolder(int64_t trial) const {
  return absl::StrFormat("%s/%05d", TrialsPath(folder_), trial);
}

absl::StatusOr<JobSpec> TuneStudy::JobOfTrial(int64_t trial) const {
  TRIBUTARY_ASSIGN_OR_RETURN(
      JobSpec job,
      TrialJob(job_text_, search_, space_, study_->trials()[trial].point));
  if (job.steps() == job_.steps() && !job.has_epochs()) return job;
  return absl::InvalidArgumentError(
      absl::StrCat("the values change the number of steps from ", job_.steps(),
                   " to ", job.steps()));
}

std::string TuneStudy::FolderOf(const Segment& segment) const {
  if (!segment.is_final()) return TrialFolder(segment.trial);
  return absl::StrFormat("%s/%05d-seed-%d", FinalRunsPath(folder_),
                         segment.trial, segment.final_seed);
}

std::string TuneStudy::OwnerOf(const Segment& segment) const {
  if (segment.is_final()) {
    return StringMember(
        journal_->replay().user_attributes().value(
            FinalRunName(segment.trial, segment.final_seed), Json::object()),
        kTuner);
  }
  const Json claim =
      records()[segment.trial].system_attributes.value(kClaim, Json::object());
  const bool of_rung =
      claim.is_object() && claim.value("rung", Json()) == segment.rung;
  return of_rung ? StringMember(claim, kTuner) : "";
}

absl::StatusOr<JobSpec> TuneStudy::JobOfSegment(const Segment& segment) const {
  TRIBUTARY_ASSIGN_OR_RETURN(JobSpec job, JobOfTrial(segment.trial));
  if (!segment.is_final()) return SegmentJob(std::move(job), segment.steps);
  job.set_seed(job.seed() + static_cast<uint64_t>(segment.final_seed));
  return job;
}

std::vector<Segment> TuneStudy::Startable() const {
  if (study_->Done() && final_.has_value()) return final_->Startable();
  return study_->Startable();
}

std::vector<int64_t> TuneStudy::Best() const {
  if (final_.has_value() && final_->Done()) {
    const std::vector<FinalCandidate> ranking = final_->Ranking();
    if (!ranking.empty()) return {ranking.front().trial};
  }
  return study_->Best();
}

std::string TuneStudy::FinalWeights(int64_t trial, int64_t seed) const {
  if (seed == 0 && !study_->trials()[trial].foreign) {
    return StringMember(records()[trial].user_attributes, kWeightsDigest);
  }
  return StringMember(journal_->replay().user_attributes().value(
                          FinalRunName(trial, seed), Json::object()),
                      kWeightsDigest);
}

std::string TuneStudy::FinalFailure(int64_t trial, int64_t seed) const {
  return StringMember(journal_->replay().user_attributes().value(
                          FinalRunName(trial, seed), Json::object()),
                      kFailure);
}

absl::optional<absl::Time> TuneStudy::began() const {
  for (const JournalTrial& trial : records()) {
    absl::Time time;
    std::string error;
    if (absl::ParseTime(absl::RFC3339_full, trial.began, &time, &error)) {
      return time;
    }
  }
  return absl::nullopt;
}

bool TuneStudy::IsQueued(int64_t trial) const {
  return records()[trial].state == JournalState::kWaiting;
}

absl::optional<SearchPoint> TuneStudy::PointOf(const JournalTrial& trial,
                                               bool partial) const {
  SearchPoint point(space_.size());
  for (const auto& [name, value] : trial.parameters) {
    const int i = space_.Find(name);
    if (i < 0) return absl::nullopt;
    point[i] = value;
    if (!IsOfKind(space_.parameter(i), trial.distributions.at(name)) ||
        !space_.Contains(i, value)) {
      return absl::nullopt;
    }
  }
  if (!partial && !space_.Contains(point)) return absl::nullopt;
  return point;
}

absl::optional<SearchPoint> TuneStudy::QueuedPoint(
    int64_t number, const JournalTrial& trial) const {
  absl::optional<SearchPoint> fixed = PointOf(trial, /*partial=*/true);
  // What Optuna's enqueue_trial was given.
  const auto values = trial.system_attributes.find("fixed_params");
  if (fixed.has_value() && values != trial.system_attributes.end() &&
      values->is_object()) {
    for (const auto& [name, value] : values->items()) {
      const int i = space_.Find(name);
      if (i < 0) return absl::nullopt;
      const absl::StatusOr<double> parsed = space_.ParseValue(
          i, value.is_string() ? value.get<std::string>() : value.dump());
      if (!parsed.ok()) return absl::nullopt;
      (*fixed)[i] = *parsed;
    }
  }
  if (!fixed.has_value()) return absl::nullopt;
  return sampler_->Complete(number, *fixed);
}

TrialResult TuneStudy::ResultOf(const JournalTrial& trial,
                                std::vector<double> values) const {
  TrialResult result;
  result.values = std::move(values);
  for (const ConstraintSpec& constraint : search_.constraint()) {
    const auto found = trial.system_attributes.find(
        absl::StrCat(kConstraintPrefix, constraint.metric()));
    const bool known =
        found != trial.system_attributes.end() && found->is_number();
    result.violations.push_back(known ? found->get<double>() : 0);
  }
  return result;
}

absl::Status TuneStudy::Apply(const JournalEvent& event) {
  if (event.kind == JournalEvent::Kind::kStudyAttribute) {
    return ApplyStudyAttribute(event.attribute);
  }
  const JournalTrial& trial = records()[event.trial];
  switch (event.kind) {
    case JournalEvent::Kind::kCreated:
      return ApplyCreated(event.trial, trial);
    case JournalEvent::Kind::kState:
      return ApplyState(event.trial, trial);
    default:
      break;
  }
  const int rung = study_->NextRung(event.trial);
  if (rung < 0) return absl::OkStatus();
  const int bracket = study_->trials()[event.trial].bracket;
  const std::vector<int64_t>& rungs = study_->plan().brackets[bracket].rungs;
  const double value = trial.intermediate_values.at(event.step);
  // The result of the last rung is the trial's.
  if (study_->plan().IsWhole(bracket, rung) || event.step != rungs[rung] ||
      !std::isfinite(value)) {
    return absl::OkStatus();
  }
  study_->Report(event.trial, ResultOf(trial, {value}));
  return absl::OkStatus();
}

absl::Status TuneStudy::ApplyStudyAttribute(const std::string& name) {
  if (name == kClosedAt) study_->Close();
  if (!final_.has_value() || !absl::StartsWith(name, kFinalTrials)) {
    return absl::OkStatus();
  }
  const Json& value = journal_->replay().user_attributes().at(name);
  const absl::Status damaged = absl::DataLossError(
      absl::StrCat(JournalPath(folder_), ": the attribute ", name,
                   " does not belong to the search in ", SearchPath(folder_)));
  if (name == kFinalTrials) {
    std::vector<int64_t> trials;
    std::vector<absl::optional<TrialResult>> results;
    for (const double number : NumbersIn(value, "trials")) {
      const int64_t trial = static_cast<int64_t>(number);
      if (trial < 0 || trial >= study_->size() ||
          study_->trials()[trial].results.empty()) {
        return damaged;
      }
      trials.push_back(trial);
      const StudyTrial& known = study_->trials()[trial];
      results.emplace_back();
      if (!known.foreign) results.back() = known.results.back();
    }
    final_->Begin(trials, results);
    return absl::OkStatus();
  }
  const std::vector<std::string> parts =
      absl::StrSplit(name.substr(sizeof(kFinalPrefix) - 1), ':');
  int64_t trial, seed;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &trial) ||
      !absl::SimpleAtoi(parts[1], &seed) || !value.is_object()) {
    return damaged;
  }
  TrialResult result;
  result.values = NumbersIn(value, "values");
  result.violations = NumbersIn(value, "violations");
  if (value.contains(kFailure)) {
    final_->Report(trial, seed, absl::nullopt);
  } else if (!result.values.empty()) {
    final_->Report(trial, seed, std::move(result));
  }
  return absl::OkStatus();
}

absl::Status TuneStudy::ApplyCreated(int64_t number,
                                     const JournalTrial& trial) {
  const bool ours = trial.system_attributes.contains(kProposedBy);
  if (study_->TakesQueued() && trial.state == JournalState::kWaiting) {
    absl::optional<SearchPoint> point = QueuedPoint(number, trial);
    if (point.has_value()) {
      study_->Propose(*std::move(point), /*sampled=*/false);
      return absl::OkStatus();
    }
  }
  if (ours && trial.state == JournalState::kRunning) {
    return ApplyProposed(number, trial);
  }
  study_->AddForeign();
  return trial.finished() ? ApplyState(number, trial) : absl::OkStatus();
}

absl::Status TuneStudy::ApplyProposed(int64_t number,
                                      const JournalTrial& trial) {
  absl::optional<SearchPoint> point = PointOf(trial, /*partial=*/false);
  int64_t parent = -1;
  const auto attribute = trial.system_attributes.find(kParent);
  if (attribute != trial.system_attributes.end() &&
      attribute->is_number_integer()) {
    parent = attribute->get<int64_t>();
  }
  // A member of a population has a parent in the generation before its own.
  const int64_t population = study_->plan().population;
  const bool has_parents = population > 0 && study_->members() >= population;
  bool fits =
      !study_->closed() && point.has_value() && has_parents == (parent >= 0);
  if (fits && has_parents) {
    const std::vector<int64_t> before =
        study_->Generation(study_->members() / population - 1);
    fits = std::count(before.begin(), before.end(), parent) > 0;
  }
  if (!fits) {
    return absl::DataLossError(absl::StrCat(
        JournalPath(folder_), ": trial ", number,
        " does not belong to the search in ", SearchPath(folder_)));
  }
  study_->Propose(*std::move(point), /*sampled=*/true, parent);
  return absl::OkStatus();
}

absl::Status TuneStudy::ApplyState(int64_t number, const JournalTrial& trial) {
  const StudyTrial& known = study_->trials()[number];
  const bool has_values =
      trial.state == JournalState::kComplete &&
      trial.values.size() == static_cast<size_t>(search_.objective_size()) &&
      std::all_of(trial.values.begin(), trial.values.end(),
                  [](double value) { return std::isfinite(value); });
  if (known.foreign) {
    if (!trial.finished()) return absl::OkStatus();
    absl::optional<SearchPoint> point = PointOf(trial, /*partial=*/false);
    absl::optional<TrialResult> result;
    if (has_values && point.has_value()) result = ResultOf(trial, trial.values);
    study_->EndForeign(number, std::move(point).value_or(SearchPoint()),
                       std::move(result));
    return absl::OkStatus();
  }
  const int rung = study_->NextRung(number);
  if (rung < 0 || !trial.finished()) return absl::OkStatus();
  if (!has_values) {
    study_->Fail(number);
    return absl::OkStatus();
  }
  if (!study_->plan().IsWhole(known.bracket, rung)) {
    return absl::DataLossError(
        absl::StrCat(JournalPath(folder_), ": trial ", number,
                     " is complete, but has not reached the last rung"));
  }
  study_->Report(number, ResultOf(trial, trial.values));
  return absl::OkStatus();
}

SearchPoint TuneStudy::NextPoint() const {
  return sampler_->Propose(study_->sampled());
}

Descendant TuneStudy::NextMember() const {
  if (study_->members() < study_->plan().population) return {-1, NextPoint()};
  return Population(search_, &space_).Next(*study_);
}

}  // namespace tributary

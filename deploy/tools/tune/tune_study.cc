#include "deploy/tools/tune/tune_study.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
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
        JournalPath(folder) + ".lock", TrialsPath(folder)}) {
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
    const Json& attributes = journal_->replay().user_attributes();
    if (attributes.contains(kClosedAt)) study_->Close();
    return absl::OkStatus();
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
  const std::vector<int64_t>& rungs =
      study_->plan().brackets[study_->trials()[event.trial].bracket].rungs;
  // The result of the last rung is the trial's.
  const bool at_end = rung + 1 == static_cast<int>(rungs.size());
  const double value = trial.intermediate_values.at(event.step);
  if (at_end || event.step != rungs[rung] || !std::isfinite(value)) {
    return absl::OkStatus();
  }
  study_->Report(event.trial, ResultOf(trial, {value}));
  return absl::OkStatus();
}

absl::Status TuneStudy::ApplyCreated(int64_t number,
                                     const JournalTrial& trial) {
  const bool ours = trial.system_attributes.contains(kProposedBy);
  if (!study_->closed() && trial.state == JournalState::kWaiting) {
    absl::optional<SearchPoint> point = QueuedPoint(number, trial);
    if (point.has_value()) {
      study_->Propose(*std::move(point), /*sampled=*/false);
      return absl::OkStatus();
    }
  }
  if (ours && trial.state == JournalState::kRunning) {
    absl::optional<SearchPoint> point = PointOf(trial, /*partial=*/false);
    if (study_->closed() || !point.has_value()) {
      return absl::DataLossError(absl::StrCat(
          JournalPath(folder_), ": trial ", number,
          " does not belong to the search in ", SearchPath(folder_)));
    }
    study_->Propose(*std::move(point));
    return absl::OkStatus();
  }
  study_->AddForeign();
  return trial.finished() ? ApplyState(number, trial) : absl::OkStatus();
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
  const size_t rungs = study_->plan().brackets[known.bracket].rungs.size();
  if (rung + 1 != static_cast<int>(rungs)) {
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

}  // namespace tributary

#include "deploy/tools/tune/tune_study.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "common/os/file.h"
#include "common/text/counted.h"
#include "deploy/tools/tune/journal/journal_lines.h"
#include "deploy/tools/tune/journal/study_attributes.h"
#include "deploy/tools/tune/search/population.h"
#include "deploy/tools/tune/search/search_file.h"
#include "deploy/tools/tune/search/study_plan.h"
#include "deploy/tools/tune/study_runs.h"
#include "deploy/tools/tune/trial_job.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxFileBytes = 1 << 20;

// Returns the trial that this one continues; -1 if there is none.
int64_t ParentOf(const JournalTrial& trial) {
  const auto attribute = trial.system_attributes.find(kParent);
  const bool known = attribute != trial.system_attributes.end() &&
                     attribute->is_number_integer();
  return known ? attribute->get<int64_t>() : -1;
}

// Returns true if the next trial of the study may have this parent: a member of
// a population has one in the generation before its own.
bool MayHaveParent(const Study& study, int64_t parent) {
  const int64_t population = study.plan().population;
  const int64_t members = static_cast<int64_t>(study.members().size());
  if (population == 0 || members < population) return parent < 0;
  const std::vector<int64_t> before =
      GenerationOf(study, members / population - 1);
  return std::count(before.begin(), before.end(), parent) > 0;
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

// An imported study from which the search would learn nothing is a mistake.
absl::Status CheckImport(const std::string& import, const Study& study) {
  const std::vector<StudyTrial>& trials = study.trials();
  if (import.empty() || trials.empty() ||
      std::any_of(trials.begin(), trials.end(), [](const StudyTrial& trial) {
        return !trial.point.empty();
      })) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      import, ": none of its ", trials.size(),
      " trials has ended with the parameters of the search; names, kinds and "
      "choices must be equal"));
}

absl::Status DeletedError(const StudyFolder& folder, const SearchSpec& search) {
  return absl::DataLossError(
      absl::StrCat(folder.Journal(), ": the study ", search.name(),
                   " was deleted; begin another one with another --output"));
}

}  // namespace

absl::Status TuneStudy::Create(const std::string& folder,
                               const SearchSpec& search,
                               const std::string& job_text,
                               const std::string& import) {
  TRIBUTARY_ASSIGN_OR_RETURN(const JobSpec job, JobToSearch(job_text, search));
  const StudyFolder files(folder);
  const auto remove_files = [&files] {
    std::error_code ignored;
    for (const std::string& path : files.Files()) {
      std::filesystem::remove_all(path, ignored);
    }
  };
  remove_files();
  absl::Cleanup remove_after_error = remove_files;
  if (!job_text.empty()) {
    TRIBUTARY_RETURN_IF_ERROR(WriteFileAtomically(files.Job(), {job_text}));
  }
  if (!import.empty()) {
    TRIBUTARY_ASSIGN_OR_RETURN(const std::string lines,
                               ReadFile(import, INT64_MAX));
    TRIBUTARY_RETURN_IF_ERROR(WriteFileAtomically(files.Journal(), {lines}));
  }
  StudyJournal journal(files.Journal(), search.name(), nullptr);
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
  const auto study = absl::WrapUnique(new TuneStudy(folder, kept));
  TRIBUTARY_RETURN_IF_ERROR(study->Load());
  TRIBUTARY_RETURN_IF_ERROR(CheckImport(import, study->study()));
  // The last file: it makes the study exist.
  TRIBUTARY_RETURN_IF_ERROR(
      WriteFileAtomically(files.Search(), {PrintSearch(kept)}));
  std::move(remove_after_error).Cancel();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TuneStudy>> TuneStudy::Open(
    const std::string& folder) {
  const StudyFolder files(folder);
  if (!files.Exists()) {
    return absl::NotFoundError(absl::StrCat(
        folder,
        " is not the folder of a study, which `tributary tune` prints"));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(SearchSpec search, LoadSearch(files.Search()));
  auto study = absl::WrapUnique(new TuneStudy(folder, std::move(search)));
  TRIBUTARY_RETURN_IF_ERROR(study->Load());
  return study;
}

absl::Status TuneStudy::Load() {
  if (PathExists(folder_.Job())) {
    TRIBUTARY_ASSIGN_OR_RETURN(job_text_,
                               ReadFile(folder_.Job(), kMaxFileBytes));
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
      folder_.Journal(), search_.name(),
      [this](const JournalEvent& event) { return Apply(event); });
  TRIBUTARY_RETURN_IF_ERROR(journal_->Read());
  loaded_ = true;
  return journal_->replay().exists() ? absl::OkStatus()
                                     : DeletedError(folder_, search_);
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
  if (event.kind == JournalEvent::Kind::kDeleted) {
    // What callers know of its trials is no longer true.
    if (loaded_) return DeletedError(folder_, search_);
    study_ = std::make_unique<Study>(StudyPlan(study_->plan()));
    if (final_.has_value()) {
      final_.emplace(search_.final(), study_->plan().maximize[0], job_.steps());
    }
    return absl::OkStatus();
  }
  if (event.kind == JournalEvent::Kind::kStudyAttribute) {
    if (event.attribute == kClosedAt) study_->Close();
    if (!final_.has_value() ||
        !absl::StartsWith(event.attribute, kFinalTrials)) {
      return absl::OkStatus();
    }
    return ApplyFinalAttribute(
        event.attribute,
        journal_->replay().user_attributes().at(event.attribute), *study_,
        &*final_);
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

absl::Status TuneStudy::ApplyCreated(int64_t number,
                                     const JournalTrial& trial) {
  const bool ours = trial.system_attributes.contains(kProposedBy);
  if (TakesQueued(*study_) && trial.state == JournalState::kWaiting) {
    absl::optional<SearchPoint> point = QueuedPoint(number, trial);
    if (point.has_value()) {
      study_->Propose(*std::move(point), /*sampled=*/false);
      return absl::OkStatus();
    }
  }
  if (ours && trial.state == JournalState::kRunning) {
    absl::optional<SearchPoint> point = PointOf(trial, /*partial=*/false);
    const int64_t parent = ParentOf(trial);
    if (study_->closed() || !point.has_value() ||
        !MayHaveParent(*study_, parent)) {
      return absl::DataLossError(
          absl::StrCat(folder_.Journal(), ": trial ", number,
                       " does not belong to the search in ", folder_.Search()));
    }
    study_->Propose(*std::move(point), /*sampled=*/true, parent);
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
  if (!study_->plan().IsWhole(known.bracket, rung)) {
    return absl::DataLossError(
        absl::StrCat(folder_.Journal(), ": trial ", number,
                     " is complete, but has not reached the last rung"));
  }
  study_->Report(number, ResultOf(trial, trial.values));
  return absl::OkStatus();
}

SearchPoint TuneStudy::NextPoint() const {
  return sampler_->Propose(study_->sampled());
}

}  // namespace tributary

#include "deploy/tools/tune/study_writer.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/json.h"
#include "deploy/tools/tune/journal/journal_lines.h"
#include "deploy/tools/tune/journal/study_attributes.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

absl::Status StudyWriter::Propose(const SearchPoint& point,
                                  const Json& attributes) {
  Json all = {{kProposedBy, study_.search().sampler().has_optuna()
                                ? SamplerSpec::Optuna::Name_Name(
                                      study_.search().sampler().optuna().name())
                                : std::string("tributary")}};
  all.update(attributes);
  return journal_.Append({CreateTrialLine(
      journal_.worker(), journal_.replay().study_id(), JournalState::kRunning,
      study_.space(), point, all, absl::Now())});
}

absl::Status StudyWriter::Enqueue(const SearchPoint& fixed) {
  Json values = Json::object();
  for (int i = 0; i < study_.space().size(); ++i) {
    if (!fixed[i].has_value()) continue;
    const std::string text = study_.space().ValueText(i, *fixed[i]);
    if (study_.space().parameter(i).has_choice()) {
      values[study_.space().parameter(i).path()] = text;
    } else {
      values[study_.space().parameter(i).path()] = *fixed[i];
    }
    if (study_.space().parameter(i).has_integer()) {
      values[study_.space().parameter(i).path()] =
          static_cast<int64_t>(*fixed[i]);
    }
  }
  return journal_.Append({CreateTrialLine(
      journal_.worker(), journal_.replay().study_id(), JournalState::kWaiting,
      study_.space(), SearchPoint(study_.space().size()),
      {{"fixed_params", values}}, absl::Now())});
}

absl::Status StudyWriter::Begin(int64_t number) {
  const int64_t id = study_.records()[number].id;
  const SearchPoint& point = study_.study().trials()[number].point;
  std::vector<std::string> lines;
  for (int i = 0; i < study_.space().size(); ++i) {
    if (!point[i].has_value()) continue;
    lines.push_back(ParameterLine(journal_.worker(), id,
                                  study_.space().parameter(i), *point[i]));
  }
  lines.push_back(
      SystemAttributeLine(journal_.worker(), id, {{kProposedBy, "user"}}));
  lines.push_back(StateLine(journal_.worker(), id, JournalState::kRunning, {},
                            absl::Now()));
  return journal_.Append(lines);
}

std::vector<std::string> StudyWriter::ConstraintLines(
    const JournalTrial& trial, const TrialResult& result) const {
  std::vector<std::string> lines;
  for (int i = 0; i < study_.search().constraint_size(); ++i) {
    lines.push_back(SystemAttributeLine(
        journal_.worker(), trial.id,
        {{absl::StrCat(kConstraintPrefix,
                       study_.search().constraint(i).metric()),
          result.violations[i]}}));
  }
  return lines;
}

absl::Status StudyWriter::Report(int64_t number, const TrialResult& result,
                                 const Json& summary) {
  const JournalTrial& trial = study_.records()[number];
  const StudyPlan& plan = study_.study().plan();
  const int bracket = study_.study().trials()[number].bracket;
  const std::vector<int64_t>& rungs = plan.brackets[bracket].rungs;
  const int rung = study_.study().NextRung(number);
  const bool at_end = rung + 1 == static_cast<int>(rungs.size());
  std::vector<std::string> lines = ConstraintLines(trial, result);
  if (at_end) {
    lines.push_back(UserAttributeLine(
        journal_.worker(), trial.id,
        {{kWeightsDigest, StringMember(summary, "weights_sha256")}}));
  }
  // Optuna's studies with several objectives have none.
  if (result.values.size() == 1) {
    lines.push_back(IntermediateValueLine(journal_.worker(), trial.id,
                                          rungs[rung], result.values[0]));
  }
  if (at_end) {
    // Members of a population are continued as other trials.
    lines.push_back(StateLine(journal_.worker(), trial.id,
                              plan.IsWhole(bracket, rung)
                                  ? JournalState::kComplete
                                  : JournalState::kPruned,
                              result.values, absl::Now()));
  }
  return journal_.Append(lines);
}

absl::Status StudyWriter::Fail(int64_t number, const std::string& reason) {
  const int64_t id = study_.records()[number].id;
  return journal_.Append(
      {UserAttributeLine(journal_.worker(), id, {{kFailure, reason}}),
       StateLine(journal_.worker(), id, JournalState::kFailed, {},
                 absl::Now())});
}

absl::Status StudyWriter::SetStudyAttribute(const std::string& name,
                                            const Json& value) {
  Json attribute = Json::object();
  attribute[name] = value;
  return journal_.Append({StudyAttributeLine(
      journal_.worker(), journal_.replay().study_id(), attribute)});
}

absl::Status StudyWriter::Claim(const Segment& segment, const std::string& id) {
  if (segment.is_final()) {
    return SetStudyAttribute(FinalRunName(segment.trial, segment.final_seed),
                             {{kTuner, id}});
  }
  return journal_.Append({SystemAttributeLine(
      journal_.worker(), study_.records()[segment.trial].id,
      {{kClaim, {{kTuner, id}, {"rung", segment.rung}}}})});
}

absl::Status StudyWriter::BeginFinal() {
  return SetStudyAttribute(
      kFinalTrials,
      {{"trials", BestTrials(study_.study(), study_.final_stage()->best())}});
}

absl::Status StudyWriter::ReportFinal(const Segment& run,
                                      const TrialResult& result,
                                      const Json& summary) {
  return SetStudyAttribute(
      FinalRunName(run.trial, run.final_seed),
      {{"values", result.values},
       {"violations", result.violations},
       {kWeightsDigest, StringMember(summary, "weights_sha256")}});
}

absl::Status StudyWriter::FailFinal(const Segment& run,
                                    const std::string& reason) {
  return SetStudyAttribute(FinalRunName(run.trial, run.final_seed),
                           {{kFailure, reason}});
}

absl::Status StudyWriter::Close() {
  return SetStudyAttribute(kClosedAt, study_.study().size());
}

absl::Status StudyWriter::Finish() {
  std::vector<std::string> lines;
  for (int64_t t = 0; t < study_.study().size(); ++t) {
    const StudyTrial& trial = study_.study().trials()[t];
    if (trial.state != StudyTrial::State::kPaused ||
        study_.records()[t].finished()) {
      continue;
    }
    lines.push_back(StateLine(journal_.worker(), study_.records()[t].id,
                              JournalState::kPruned,
                              trial.results.back().values, absl::Now()));
  }
  return lines.empty() ? absl::OkStatus() : journal_.Append(lines);
}

}  // namespace tributary

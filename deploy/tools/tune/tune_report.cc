#include "deploy/tools/tune/tune_report.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/json.h"
#include "common/text/counted.h"
#include "deploy/tools/tune/journal/study_attributes.h"
#include "deploy/tools/tune/search/population.h"
#include "deploy/tools/tune/study_runs.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;

// The state of a trial, for users.
std::string StateText(const TuneStudy& study, int64_t number) {
  const StudyTrial& trial = study.study().trials()[number];
  if (study.IsQueued(number)) return "queued";
  switch (trial.state) {
    case StudyTrial::State::kActive:
      return "running";
    case StudyTrial::State::kPaused:
      return study.study().Done() ? "stopped" : "paused";
    case StudyTrial::State::kComplete:
      return trial.point.empty() ? "foreign" : "complete";
    case StudyTrial::State::kFailed:
      return trial.foreign ? "foreign" : "failed";
    case StudyTrial::State::kForeign:
      return "foreign";
  }
  return "";
}

// Returns the number of steps of the trial's last result.
int64_t StepsOf(const TuneStudy& study, int64_t number) {
  const StudyTrial& trial = study.study().trials()[number];
  if (trial.results.empty()) return 0;
  const std::vector<int64_t>& rungs =
      study.study().plan().brackets[trial.bracket].rungs;
  return trial.foreign ? rungs.back() : rungs[trial.results.size() - 1];
}

// Returns the trials, those that have been trained longest and the best of
// these first.
std::vector<int64_t> InOrder(const TuneStudy& study) {
  const std::vector<StudyTrial>& trials = study.study().trials();
  std::vector<int64_t> order(trials.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    if (StepsOf(study, a) != StepsOf(study, b)) {
      return StepsOf(study, a) > StepsOf(study, b);
    }
    if (trials[a].results.empty() || trials[b].results.empty()) return false;
    const bool several = study.study().plan().maximize.size() > 1;
    // Domination is no order that can be sorted by.
    return !several &&
           IsBetter(trials[a].results.back(), trials[b].results.back(),
                    study.study().plan().maximize);
  });
  return order;
}

std::string WeightsOf(const TuneStudy& study, int64_t number) {
  return StringMember(study.records()[number].user_attributes, kWeightsDigest);
}

// Returns the final evaluation for scripts; null if the search has none.
Json FinalJson(const TuneStudy& study) {
  if (study.final_stage() == nullptr) return nullptr;
  Json candidates = Json::array();
  for (const FinalCandidate& candidate : study.final_stage()->Ranking()) {
    Json seeds = Json::array();
    const int64_t count = static_cast<int64_t>(candidate.results.size());
    for (int64_t seed = 0; seed < count; ++seed) {
      const absl::optional<TrialResult>& result = candidate.results[seed];
      seeds.push_back(
          {{"objectives", result.has_value() ? Json(result->values) : Json()},
           {"weights_sha256", WeightsOfFinalRun(study, candidate.trial, seed)},
           {"failure", FailureOfFinalRun(study, candidate.trial, seed)}});
    }
    candidates.push_back({{"trial", candidate.trial},
                          {"seeds", seeds},
                          {"mean", candidate.mean.values},
                          {"deviation", candidate.deviation}});
  }
  return candidates;
}

// Returns the values of the trial, a line each. If they have changed while its
// population was trained, also the steps for which it had them.
std::string ValuesOf(const TuneStudy& study, int64_t number) {
  const std::vector<LineagePart> lineage = LineageOf(study.study(), number);
  std::string text;
  for (const LineagePart& part : lineage) {
    if (lineage.size() > 1) {
      absl::StrAppend(&text, "             steps ", part.first_step, " to ",
                      part.last_step, ":\n");
    }
    for (const std::string& set : study.space().Sets(part.point)) {
      absl::StrAppend(&text, "             ", lineage.size() > 1 ? "  " : "",
                      set, "\n");
    }
  }
  return text;
}

}  // namespace

std::string ValueText(double value) { return absl::StrFormat("%.6g", value); }

std::string PointText(const TuneStudy& study, int64_t trial) {
  const SearchPoint& point = study.study().trials()[trial].point;
  if (point.empty()) return "of another program, with other parameters";
  std::vector<std::string> texts;
  for (int i = 0; i < study.space().size(); ++i) {
    if (!point[i].has_value()) continue;
    const SearchParameterSpec& parameter = study.space().parameter(i);
    texts.push_back(absl::StrCat(parameter.path(), "=",
                                 parameter.has_number()
                                     ? absl::StrFormat("%.4g", *point[i])
                                     : study.space().ValueText(i, *point[i])));
  }
  return absl::StrJoin(texts, " ");
}

std::string ResultText(const TuneStudy& study, const TrialResult& result) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < result.values.size(); ++i) {
    texts.push_back(
        absl::StrCat(study.search().objective(static_cast<int>(i)).metric(),
                     " ", ValueText(result.values[i])));
  }
  if (TotalViolation(result) > 0) texts.push_back("violates a constraint");
  return absl::StrJoin(texts, ", ");
}

std::string FormatFinal(const TuneStudy& study) {
  const FinalStage* const final_stage = study.final_stage();
  if (final_stage == nullptr || !final_stage->begun()) return "";
  std::string text = absl::StrFormat(
      "final evaluation with %d seeds:\n%5s  %-9s  %-12s  %-12s  %s\n",
      study.search().final().seeds(), "trial", "runs", "mean", "deviation",
      "values");
  for (const FinalCandidate& candidate : final_stage->Ranking()) {
    const int64_t good = candidate.ended - candidate.failed;
    absl::StrAppendFormat(
        &text, "%5d  %-9s  %-12s  %-12s  %s\n", candidate.trial,
        absl::StrCat(candidate.ended, " of ", candidate.results.size()),
        good > 0 ? ValueText(candidate.mean.values[0]) : "-",
        good > 1 ? ValueText(candidate.deviation) : "-",
        absl::StrCat(PointText(study, candidate.trial),
                     candidate.failed > 0
                         ? absl::StrCat(" | ", candidate.failed, " failed")
                         : ""));
  }
  return text;
}

std::string FormatStudy(const TuneStudy& study, int64_t rows) {
  std::string text;
  const StudyPlan& plan = study.study().plan();
  std::vector<std::string> metrics;
  for (const ObjectiveSpec& objective : study.search().objective()) {
    metrics.push_back(objective.metric());
  }
  absl::StrAppendFormat(&text, "%5s  %-8s  %8s  %-16s  %s\n", "trial", "state",
                        "steps", absl::StrJoin(metrics, " "), "values");
  int64_t shown = 0;
  const std::vector<int64_t> order = InOrder(study);
  for (const int64_t number : order) {
    if (shown++ == rows) break;
    const StudyTrial& trial = study.study().trials()[number];
    std::vector<std::string> values;
    if (!trial.results.empty()) {
      for (const double value : trial.results.back().values) {
        values.push_back(ValueText(value));
      }
    }
    std::string note = PointText(study, number);
    if (trial.parent >= 0) {
      absl::StrAppend(&note, " | continues trial ", trial.parent);
    }
    const std::string failure =
        StringMember(study.records()[number].user_attributes, kFailure);
    if (!failure.empty()) absl::StrAppend(&note, " | ", failure);
    absl::StrAppendFormat(&text, "%5d  %-8s  %8d  %-16s  %s\n", number,
                          StateText(study, number), StepsOf(study, number),
                          values.empty() ? "-" : absl::StrJoin(values, " "),
                          note);
  }
  if (shown > rows) {
    absl::StrAppend(
        &text, "... ",
        Counted(static_cast<int64_t>(order.size()) - rows, "more trial"), "\n");
  }
  if (plan.scheduler == StudyPlan::Scheduler::kNone) return text;
  if (plan.scheduler == StudyPlan::Scheduler::kPopulation) {
    absl::StrAppend(
        &text, "population: ", study.study().members().size(), " of ",
        *plan.most_trials, " trials, ",
        Counted(static_cast<int64_t>(plan.brackets.size()), "generation"),
        " of ", plan.population, "\n");
    return text;
  }
  for (size_t b = 0; b < plan.brackets.size(); ++b) {
    std::vector<std::string> counts;
    for (size_t r = 0; r < plan.brackets[b].rungs.size(); ++r) {
      const int64_t reached = std::count_if(
          study.study().trials().begin(), study.study().trials().end(),
          [&](const StudyTrial& trial) {
            return !trial.foreign && trial.bracket == static_cast<int>(b) &&
                   trial.results.size() > r;
          });
      counts.push_back(
          absl::StrCat(plan.brackets[b].rungs[r], " steps: ", reached));
    }
    absl::StrAppend(
        &text, "rungs",
        plan.brackets.size() > 1 ? absl::StrCat(" of bracket ", b) : "", ": ",
        absl::StrJoin(counts, ", "), "\n");
  }
  return text;
}

std::string FormatBest(const TuneStudy& study) {
  std::string text;
  const FinalStage* const final_stage = study.final_stage();
  for (const int64_t number : study.Best()) {
    const StudyTrial& trial = study.study().trials()[number];
    absl::StrAppend(&text, "best trial   ", number, ", ",
                    ResultText(study, trial.results.back()), "\n");
    if (final_stage != nullptr && final_stage->Done()) {
      const FinalCandidate winner = final_stage->Ranking().front();
      // Empty if all runs have failed.
      for (const double mean : winner.mean.values) {
        absl::StrAppend(&text, "mean         ", ValueText(mean), ", deviation ",
                        ValueText(winner.deviation), ", over ",
                        Counted(winner.ended - winner.failed, "seed"), "\n");
      }
    }
    absl::StrAppend(&text, ValuesOf(study, number));
    if (trial.foreign) continue;
    absl::StrAppend(&text, "run          ", study.folder().Trial(number), "\n");
    const std::string weights = WeightsOf(study, number);
    if (!weights.empty()) {
      absl::StrAppend(&text, "weights      ", weights, "\n");
    }
  }
  return text;
}

Json StudyJson(const TuneStudy& study) {
  Json trials = Json::array();
  for (int64_t t = 0; t < study.study().size(); ++t) {
    const StudyTrial& trial = study.study().trials()[t];
    Json values = Json::object();
    for (size_t i = 0; i < trial.point.size(); ++i) {
      if (!trial.point[i].has_value()) continue;
      const int parameter = static_cast<int>(i);
      const std::string& path = study.space().parameter(parameter).path();
      if (study.space().parameter(parameter).has_choice()) {
        values[path] = study.space().ValueText(parameter, *trial.point[i]);
      } else {
        values[path] = *trial.point[i];
      }
    }
    Json results = Json::array();
    for (const TrialResult& result : trial.results) {
      results.push_back(
          {{"objectives", result.values}, {"violations", result.violations}});
    }
    trials.push_back(
        {{"trial", t},
         {"state", StateText(study, t)},
         {"bracket", trial.bracket},
         {"steps", StepsOf(study, t)},
         {"values", values},
         {"parent", trial.parent < 0 ? Json() : Json(trial.parent)},
         {"rungs", results},
         {"weights_sha256", WeightsOf(study, t)},
         {"failure",
          StringMember(study.records()[t].user_attributes, kFailure)}});
  }
  Json brackets = Json::array();
  for (const Bracket& bracket : study.study().plan().brackets) {
    brackets.push_back(bracket.rungs);
  }
  return {{"study", study.name()},     {"done", study.Done()},
          {"brackets", brackets},      {"best", study.Best()},
          {"final", FinalJson(study)}, {"trials", trials}};
}

}  // namespace tributary

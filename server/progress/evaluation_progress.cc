#include "server/progress/evaluation_progress.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"

namespace tributary {
namespace {

constexpr size_t kMostMetrics = 64;
constexpr size_t kMostMetricName = 64;

bool IsMetricName(const std::string& name) {
  static const auto* const taken = new std::set<std::string>{
      "step", "loss", "accuracy", "perplexity", "seconds"};
  return !name.empty() && name.size() <= kMostMetricName &&
         !absl::ascii_isdigit(static_cast<unsigned char>(name[0])) &&
         taken->count(name) == 0 &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '_';
         });
}

// Adds scores that HasValidScores has accepted.
void AddScores(const ScoreBins& scores, ScoreHistogram* sum) {
  uint32_t bin = 0;
  for (int i = 0; i < scores.bin_delta_size(); ++i) {
    bin += scores.bin_delta(i);
    sum->Add(bin, {scores.negatives(i), scores.positives(i)});
  }
}

// Returns whether the scores are absent or those of `weight` samples.
bool HasValidScores(const EvaluationReport& report) {
  const ScoreBins& scores = report.scores();
  const int size = scores.bin_delta_size();
  if (scores.negatives_size() != size || scores.positives_size() != size) {
    return false;
  }
  uint64_t bin = 0;
  int64_t left = report.weight();
  for (int i = 0; i < size; ++i) {
    bin += scores.bin_delta(i);
    if ((i > 0 && scores.bin_delta(i) == 0) || bin >= ScoreHistogram::kBins) {
      return false;
    }
    for (const int64_t count : {scores.negatives(i), scores.positives(i)}) {
      if (count < 0 || count > left) return false;
      left -= count;
    }
  }
  return size == 0 || left == 0;
}

}  // namespace

EvaluationProgress::EvaluationProgress(const JobSpec& job,
                                       const DataFacts& facts,
                                       const Rounds& rounds)
    : job_(job),
      facts_(facts),
      rounds_(rounds),
      history_(job),
      plateau_(job),
      final_version_(rounds.count()) {}

void EvaluationProgress::Restore(int64_t version, const JobState& state) {
  evaluated_version_ = state.evaluated_version();
  history_.Restore(state);
  plateau_.Restore(state);
  // A job that stopped early may resume with other conditions.
  if (version == final_version_) stop_reason_ = state.stop_reason();
  if (evaluated_version_ > 0) {
    evaluation_ = Evaluation{
        state.evaluation_step(),
        state.evaluation_loss(),
        state.evaluation_accuracy(),
        {state.evaluation_metric().begin(), state.evaluation_metric().end()}};
  }
}

void EvaluationProgress::Save(JobState* state) const {
  state->set_evaluated_version(evaluated_version_);
  history_.Save(state);
  plateau_.Save(state);
  state->set_stop_reason(stop_reason_);
  if (evaluation_.has_value()) {
    state->set_evaluation_step(evaluation_->step);
    state->set_evaluation_loss(evaluation_->loss);
    state->set_evaluation_accuracy(evaluation_->accuracy);
    state->mutable_evaluation_metric()->clear();
    state->mutable_evaluation_metric()->insert(evaluation_->metrics.begin(),
                                               evaluation_->metrics.end());
  }
}

bool EvaluationProgress::Due(int64_t version) const {
  if (facts_.evaluation_pieces() == 0 || version == 0) return false;
  const int64_t every = rounds_.RoundsFor(job_.evaluation().every_steps());
  return version == rounds_.count() || (every > 0 && version % every == 0);
}

int64_t EvaluationProgress::Next() const {
  const int64_t every = rounds_.RoundsFor(job_.evaluation().every_steps());
  if (facts_.evaluation_pieces() == 0 || every == 0) return final_version_;
  return std::min(final_version_, evaluated_version_ / every * every + every);
}

absl::Status EvaluationProgress::CheckPiece(
    const EvaluationReport& report) const {
  const bool last = report.piece() == facts_.evaluation_pieces() - 1;
  const int64_t most = job_.evaluation().batch() * UnitsPerSample(job_);
  // Only the workers know which samples of data.external, and which tokens of
  // a masked text, count.
  const bool varies = SampleCountsVary(job_);
  const int64_t least = varies ? 0 : last ? 1 : std::max<int64_t>(most, 1);
  // A job that is not resolved has no size of pieces.
  if (report.weight() < least || (most > 0 && report.weight() > most)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "evaluation of version ", report.version(), ", piece ", report.piece(),
        ": weight is ", report.weight(), ", expected ",
        least < most ? absl::StrCat("from ", least, " to ") : "", most,
        ": the samples (tokens) of the piece"));
  }
  if (report.correct() < 0 || report.correct() > report.weight()) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluation of version ", report.version(), ", piece ",
                     report.piece(), ": correct is ", report.correct(),
                     ", expected from 0 to ", report.weight()));
  }
  if (!HasValidScores(report)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "evaluation of version ", report.version(), ", piece ", report.piece(),
        ": scores must be the counts of ascending bins below ",
        ScoreHistogram::kBins, ", and add up to weight, ", report.weight()));
  }
  std::set<std::string> names;
  for (const MetricSum& metric : report.metric()) {
    if (IsMetricName(metric.name()) && names.insert(metric.name()).second &&
        names.size() <= kMostMetrics && metric.count() >= 0) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "evaluation of version ", report.version(), ", piece ", report.piece(),
        ": metric '", absl::CEscape(metric.name().substr(0, kMostMetricName)),
        "' has the count ", metric.count(), ", expected at most ", kMostMetrics,
        " names of letters, digits and underscores, each once and none of "
        "step, loss, accuracy, perplexity and seconds, and counts of at least "
        "0"));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> EvaluationProgress::Add(const EvaluationReport& report,
                                             absl::Time now) {
  if (report.version() <= evaluated_version_) return false;
  if (!Due(report.version()) || report.piece() < 0 ||
      report.piece() >= facts_.evaluation_pieces()) {
    return absl::InvalidArgumentError(absl::StrCat("no evaluation of version ",
                                                   report.version(), ", piece ",
                                                   report.piece(), " is due"));
  }
  TRIBUTARY_RETURN_IF_ERROR(CheckPiece(report));
  if (report.version() != evaluating_version_) {
    evaluating_version_ = report.version();
    pieces_.clear();
    scores_ = ScoreHistogram();
  }
  if (const auto [added, is_new] = pieces_.emplace(report.piece(), report);
      is_new) {
    last_piece_ = now;
    AddScores(report.scores(), &scores_);
    added->second.clear_scores();
  }
  if (static_cast<int64_t>(pieces_.size()) < facts_.evaluation_pieces()) {
    return false;
  }
  double loss = 0;
  int64_t correct = 0;
  int64_t sample_count = 0;
  std::map<std::string, std::pair<double, double>> metrics;
  for (const auto& [number, piece] : pieces_) {
    for (const MetricSum& metric : piece.metric()) {
      auto& [sum, count] = metrics[metric.name()];
      sum += metric.sum();
      count += metric.count();
    }
    loss += piece.loss_sum();
    correct += piece.correct();
    sample_count += piece.weight();
  }
  pieces_.clear();
  evaluated_version_ = report.version();
  const auto counted = static_cast<double>(std::max<int64_t>(sample_count, 1));
  evaluation_ = Evaluation{rounds_.StepsAfter(report.version()), loss / counted,
                           static_cast<double>(correct) / counted};
  for (const auto& [name, sums] : metrics) {
    evaluation_->metrics[name] = sums.second > 0 ? sums.first / sums.second : 0;
  }
  if (!scores_.bins().empty()) evaluation_->metrics["auc"] = scores_.Auc();
  scores_ = ScoreHistogram();
  Judge(report.version());
  return true;
}

void EvaluationProgress::Judge(int64_t version) {
  plateau_.Add(*evaluation_);
  const EvaluationHistory::Verdict verdict = history_.Add(*evaluation_);
  best_version_ = verdict.best ? std::optional<int64_t>(version) : std::nullopt;
  if (version == rounds_.count() || verdict.stop.empty()) return;
  stop_reason_ = verdict.stop;
  final_version_ = version;
}

bool EvaluationProgress::EndAt(int64_t version, const std::string& reason) {
  if (version >= final_version_) return false;
  stop_reason_ = reason;
  final_version_ = version;
  return true;
}

std::optional<int64_t> EvaluationProgress::MissingPiece(int64_t version) const {
  if (!Due(version) || version <= evaluated_version_) {
    return std::nullopt;
  }
  int64_t piece = 0;
  if (evaluating_version_ == version) {
    while (pieces_.count(piece) > 0) ++piece;
  }
  return piece;
}

}  // namespace tributary

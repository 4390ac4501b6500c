#include "server/progress/job_progress.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/optimizer/schedule.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/gradient_squares.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

// Number of rounds at the start that are not measured, because they fill caches
// and pools.
constexpr int64_t kWarmUpRounds = 3;
// Number of step times kept: enough for a stable median, at little memory.
constexpr size_t kStepTimes = 4096;

// A round is stalled when it takes at least this long and at least kStallFactor
// times as long as the rounds before it.
constexpr absl::Duration kStall = absl::Seconds(2);
constexpr double kStallFactor = 3;

}  // namespace

JobProgress::JobProgress(const JobSpec& job, const DataFacts& facts, int chunks,
                         int servers)
    : job_(job),
      facts_(facts),
      rounds_(job, facts.steps()),
      chunks_(chunks),
      servers_(servers),
      breakdown_(std::min(servers, chunks)),
      history_(job),
      final_version_(rounds_.count()) {}

void JobProgress::Resume(int64_t version, const JobState& state) {
  first_round_ = completed_rounds_ = all_complete_below_ = version;
  last_loss_ = state.loss();
  total_sample_count_ = state.samples();
  skipped_steps_ = state.skipped_steps();
  trained_before_ = absl::Seconds(state.seconds());
  evaluated_version_ = state.evaluated_version();
  history_.Restore(state);
  // A job that stopped early may resume with other conditions.
  if (version == final_version_) stop_reason_ = state.stop_reason();
  if (evaluated_version_ > 0) {
    evaluation_ = Evaluation{state.evaluation_step(), state.evaluation_loss(),
                             state.evaluation_accuracy()};
  }
}

JobState JobProgress::Save() const {
  JobState state;
  state.set_loss(last_loss_);
  state.set_samples(total_sample_count_);
  state.set_skipped_steps(skipped_steps_);
  state.set_seconds(absl::ToDoubleSeconds(last_step_ - begin_ - evaluating_));
  state.set_evaluated_version(evaluated_version_);
  history_.Save(&state);
  state.set_stop_reason(stop_reason_);
  if (evaluation_.has_value()) {
    state.set_evaluation_step(evaluation_->step);
    state.set_evaluation_loss(evaluation_->loss);
    state.set_evaluation_accuracy(evaluation_->accuracy);
  }
  return state;
}

void JobProgress::Begin(absl::Time now) {
  last_ = last_step_ = window_.begin = now;
  begin_ = now - trained_before_;
}

absl::StatusOr<std::optional<GradientNorm>> JobProgress::AddSums(
    int shard, const StepSums& sums, absl::Time now) {
  const int64_t round = sums.step();
  // Servers work on the same round, but reports of several rounds may be in
  // flight.
  if (round < all_complete_below_ || complete_beyond_.count(round) > 0 ||
      round >= rounds_.count()) {
    return absl::InvalidArgumentError(
        absl::StrCat("server ", shard, " reports step ", round,
                     " while the job is at step ", completed_rounds_));
  }
  OpenRound& open = open_[round];
  if (open.reported.empty()) {
    open.squares.resize(chunks_);
    open.reported.resize(servers_);
    // With more servers than chunks, some servers have no chunk and report
    // nothing.
    open.missing = std::min(servers_, chunks_);
  }
  std::vector<int> own;
  for (int chunk = 0; chunk < chunks_; ++chunk) {
    if (ArenaLayout::ShardOf(chunk, servers_) == shard) own.push_back(chunk);
  }
  if (sums.sum_of_squares_size() != static_cast<int>(own.size()) ||
      open.reported[shard]) {
    return absl::InvalidArgumentError(absl::StrCat(
        "server ", shard, " reports step ", round,
        open.reported[shard] ? " twice" : " with a wrong number of chunks"));
  }
  for (size_t i = 0; i < own.size(); ++i) {
    open.squares[own[i]] = sums.sum_of_squares(static_cast<int>(i));
  }
  open.reported[shard] = true;
  breakdown_.AddArrivals(sums);
  for (const StepSums::Nonfinite& place : sums.nonfinite()) {
    if (!open.nonfinite.has_value() ||
        place.chunk() > open.nonfinite->chunk()) {
      open.nonfinite = place;
    }
  }
  if (shard == 0) {
    open.sample_count = sums.weight();
    open.loss_sum = sums.loss_sum();
    open.nonfinite_loss_contributor = sums.nonfinite_loss_contributor();
  }
  if (--open.missing > 0) return std::optional<GradientNorm>();
  const OpenRound closed = std::move(open);
  open_.erase(round);
  complete_beyond_.insert(round);
  while (complete_beyond_.erase(all_complete_below_) > 0) {
    ++all_complete_below_;
  }
  return std::optional<GradientNorm>(Close(round, closed, now));
}

GradientNorm JobProgress::Close(int64_t round, const OpenRound& open,
                                absl::Time now) {
  double squares = 0;
  for (const double square : open.squares) squares += square;
  GradientNorm norm;
  norm.set_step(round);
  norm.set_norm(MeanGradientNorm(squares, open.sample_count));
  total_sample_count_ += open.sample_count;
  if (open.nonfinite.has_value()) {
    nonfinite_ = NonfiniteGradient{rounds_.StepsAfter(round), *open.nonfinite};
    if (job_.on_nonfinite() == JobSpec::SKIP) {
      skipped_steps_ +=
          rounds_.StepsAfter(round + 1) - rounds_.StepsAfter(round);
    }
  } else {
    last_norm_ = norm.norm();
    if (open.nonfinite_loss_contributor != 0) {
      nonfinite_loss_ = NonfiniteLoss{rounds_.StepsAfter(round),
                                      open.nonfinite_loss_contributor};
    } else {
      if (open.sample_count > 0) {
        last_loss_ = open.loss_sum / static_cast<double>(open.sample_count);
      }
      window_.loss_sum += open.loss_sum;
      window_.sample_count += open.sample_count;
    }
  }
  ++completed_rounds_;
  const int64_t steps =
      completed_steps() - rounds_.StepsAfter(completed_rounds_ - 1);
  ++window_.rounds;
  window_.steps += steps;
  RecordStepTime(now, steps);
  last_ = last_step_ = now;
  if (completed_rounds_ % rounds_.RoundsFor(job_.output().log_every_steps()) ==
          0 ||
      completed_rounds_ == rounds_.count()) {
    EmitTraining(now);
  }
  return norm;
}

void JobProgress::RecordStepTime(absl::Time now, int64_t steps) {
  if (completed_rounds_ - first_round_ <= kWarmUpRounds ||
      EvaluationDue(completed_rounds_ - 1)) {
    return;
  }
  step_times_.push_back(absl::ToDoubleMilliseconds(now - last_step_) /
                        static_cast<double>(steps));
  if (step_times_.size() > kStepTimes) step_times_.pop_front();
  step_seconds_.Add(1e-3 * step_times_.back(), steps);
}

void JobProgress::EmitTraining(absl::Time now) {
  const double seconds = std::max(
      1e-9, absl::ToDoubleSeconds(now - window_.begin - window_.evaluating));
  const double loss =
      window_.sample_count > 0
          ? window_.loss_sum / static_cast<double>(window_.sample_count)
          : last_loss_;
  recent_.set_loss(loss);
  recent_.set_gradient_norm(last_norm_);
  recent_.set_learning_rate(
      LearningRateAt(job_, facts_.steps(), completed_steps() - 1));
  recent_.set_samples_per_second(static_cast<double>(window_.sample_count) /
                                 seconds);
  recent_.set_seconds(absl::ToDoubleSeconds(now - begin_));
  recent_.set_step_milliseconds(1e3 * seconds /
                                static_cast<double>(window_.steps));
  nlohmann::ordered_json line = {
      {"step", completed_steps()},
      {"epoch", static_cast<double>(completed_steps()) /
                    static_cast<double>(facts_.steps_per_epoch())},
      {"loss", loss},
      {"learning_rate", recent_.learning_rate()},
      {"gradient_norm", last_norm_},
      {"samples", window_.sample_count},
      {"samples_per_second", recent_.samples_per_second()},
      {"step_seconds", seconds / static_cast<double>(window_.steps)},
      {"seconds", absl::ToDoubleSeconds(now - begin_)},
  };
  nlohmann::ordered_json resources = resources_.Take(now, now - begin_);
  // Readers find the lines with resources without parsing the arrays.
  if (!resources.is_null()) line["resources_count"] = resources.size();
  breakdown_.EndWindow(window_.rounds);
  EmitBreakdown(&line);
  if (!resources.is_null()) line["resources"] = std::move(resources);
  metrics_.push_back(line.dump());
  window_ = Window();
  window_.begin = now;
}

void JobProgress::EmitBreakdown(nlohmann::ordered_json* line) {
  double compute = 0;
  double exchange = 0;
  double all = 0;
  // Workers report per round, metrics lines per step.
  const double rounds_per_step =
      static_cast<double>(window_.rounds) / static_cast<double>(window_.steps);
  const auto milliseconds = [rounds_per_step](double round_seconds) {
    // Rounded to microseconds to keep the lines short.
    return std::round(1e6 * round_seconds * rounds_per_step) / 1e3;
  };
  nlohmann::ordered_json& workers = (*line)["workers"];
  workers = nlohmann::ordered_json::array();
  for (const WorkerStep& worker : breakdown_.workers()) {
    workers.push_back({{"rank", worker.rank},
                       {"leaves", worker.micro_batches},
                       {"forward_ms", milliseconds(worker.forward_seconds)},
                       {"backward_ms", milliseconds(worker.backward_seconds)},
                       {"data_ms", milliseconds(worker.data_seconds)},
                       {"exchange_ms", milliseconds(worker.exchange_seconds)},
                       {"waiting_ms", milliseconds(worker.waiting_seconds)}});
    compute += worker.forward_seconds + worker.backward_seconds;
    exchange += worker.exchange_seconds;
    all += worker.data_seconds;
  }
  all += compute + exchange;
  recent_.set_compute_share(all > 0 ? compute / all : 0);
  recent_.set_exchange_share(all > 0 ? exchange / all : 0);
  recent_.clear_waiting_rank();
  recent_.clear_waiting_milliseconds();
  recent_.clear_waiting_phase();
  if (!breakdown_.straggler().has_value()) return;
  const Straggler& straggler = *breakdown_.straggler();
  recent_.set_waiting_rank(straggler.rank);
  recent_.set_waiting_milliseconds(milliseconds(straggler.seconds));
  recent_.set_waiting_phase(straggler.phase);
  (*line)["waiting"] = {{"rank", straggler.rank},
                        {"ms", recent_.waiting_milliseconds()},
                        {"phase", straggler.phase}};
}

bool JobProgress::EvaluationDue(int64_t version) const {
  if (facts_.evaluation_pieces() == 0 || version == 0) return false;
  const int64_t every = rounds_.RoundsFor(job_.evaluation().every_steps());
  return version == rounds_.count() || (every > 0 && version % every == 0);
}

int64_t JobProgress::NextEvaluation() const {
  const int64_t every = rounds_.RoundsFor(job_.evaluation().every_steps());
  if (facts_.evaluation_pieces() == 0 || every == 0) return final_version_;
  return std::min(final_version_, evaluated_version_ / every * every + every);
}

absl::Status JobProgress::CheckPiece(const EvaluationReport& report) const {
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
  return absl::OkStatus();
}

absl::StatusOr<bool> JobProgress::AddEvaluation(const EvaluationReport& report,
                                                absl::Time now) {
  if (report.version() <= evaluated_version_) return false;
  if (!EvaluationDue(report.version()) || report.piece() < 0 ||
      report.piece() >= facts_.evaluation_pieces()) {
    return absl::InvalidArgumentError(absl::StrCat("no evaluation of version ",
                                                   report.version(), ", piece ",
                                                   report.piece(), " is due"));
  }
  TRIBUTARY_RETURN_IF_ERROR(CheckPiece(report));
  if (report.version() != evaluating_version_) {
    evaluating_version_ = report.version();
    pieces_.clear();
  }
  if (pieces_.emplace(report.piece(), report).second) last_piece_ = now;
  if (static_cast<int64_t>(pieces_.size()) < facts_.evaluation_pieces()) {
    return false;
  }
  double loss = 0;
  int64_t correct = 0;
  int64_t sample_count = 0;
  for (const auto& [number, piece] : pieces_) {
    loss += piece.loss_sum();
    correct += piece.correct();
    sample_count += piece.weight();
  }
  pieces_.clear();
  evaluated_version_ = report.version();
  const auto counted = static_cast<double>(std::max<int64_t>(sample_count, 1));
  evaluation_ = Evaluation{rounds_.StepsAfter(report.version()), loss / counted,
                           static_cast<double>(correct) / counted};
  last_ = now;
  if (report.version() < rounds_.count()) {
    // No worker trained from the end of the last step until now.
    window_.evaluating += now - last_step_;
    evaluating_ += now - last_step_;
  }
  Judge(report.version());
  nlohmann::ordered_json line = {
      {"step", evaluation_->step},
      {"evaluation_loss", evaluation_->loss},
      {"evaluation_accuracy", evaluation_->accuracy},
      {"seconds", absl::ToDoubleSeconds(now - begin_)}};
  if (best_version_.has_value()) line["best"] = true;
  if (!stop_reason_.empty()) line["stop_reason"] = stop_reason_;
  metrics_.push_back(line.dump());
  return true;
}

void JobProgress::Judge(int64_t version) {
  const EvaluationHistory::Verdict verdict = history_.Add(*evaluation_);
  if (verdict.best) best_version_ = version;
  if (version == rounds_.count() || verdict.stop.empty()) return;
  stop_reason_ = verdict.stop;
  final_version_ = version;
}

std::optional<int64_t> JobProgress::TakeBest() {
  return std::exchange(best_version_, std::nullopt);
}

bool JobProgress::finished() const {
  return completed_rounds_ == final_version_ &&
         (!EvaluationDue(final_version_) ||
          evaluated_version_ == final_version_);
}

double JobProgress::samples_per_second() const {
  const double seconds =
      absl::ToDoubleSeconds(last_step_ - begin_ - evaluating_);
  return seconds > 0 ? static_cast<double>(total_sample_count_) / seconds : 0;
}

std::optional<JobProgress::NonfiniteLoss> JobProgress::TakeNonfiniteLoss() {
  return std::exchange(nonfinite_loss_, std::nullopt);
}

std::optional<JobProgress::NonfiniteGradient> JobProgress::TakeNonfinite() {
  return std::exchange(nonfinite_, std::nullopt);
}

std::vector<std::string> JobProgress::TakeMetrics() {
  return std::exchange(metrics_, {});
}

std::optional<int64_t> JobProgress::MissingPiece() const {
  if (!EvaluationDue(completed_rounds_) ||
      completed_rounds_ <= evaluated_version_) {
    return std::nullopt;
  }
  int64_t piece = 0;
  if (evaluating_version_ == completed_rounds_) {
    while (pieces_.count(piece) > 0) ++piece;
  }
  return piece;
}

absl::Duration JobProgress::Stalled(absl::Time now) const {
  const absl::Duration taken = now - last_;
  const absl::Duration usual =
      absl::Milliseconds(recent_.step_milliseconds()) * rounds_.StepsAfter(1);
  return taken < kStall || taken < kStallFactor * usual ? absl::ZeroDuration()
                                                        : taken;
}

void JobProgress::FillStatus(StatusReply* reply) const {
  reply->MergeFrom(recent_);
  reply->set_step(completed_steps());
  reply->set_steps(facts_.steps());
  reply->set_epoch(static_cast<double>(completed_steps()) /
                   static_cast<double>(facts_.steps_per_epoch()));
  reply->set_unit(facts_.unit());
  reply->set_skipped_steps(skipped_steps_);
  if (completed_rounds_ > 0) {
    const absl::Duration trained = last_step_ - begin_ - evaluating_;
    reply->set_seconds_left(
        absl::ToDoubleSeconds(trained) *
        static_cast<double>(facts_.steps() - completed_steps()) /
        static_cast<double>(completed_steps()));
  }
  reply->set_evaluation_version(evaluation_.has_value() ? evaluation_->step
                                                        : -1);
  if (evaluation_.has_value()) {
    reply->set_evaluation_loss(evaluation_->loss);
    reply->set_evaluation_accuracy(evaluation_->accuracy);
  }
}

}  // namespace tributary

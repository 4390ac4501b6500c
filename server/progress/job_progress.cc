#include "server/progress/job_progress.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "common/base/status_macros.h"
#include "common/optimizer/schedule.h"
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

// Adds the fields `workers` and, if there is a straggler, `waiting` to `*line`.
// Sets the compute and exchange shares and the straggler in `*recent`.
void AddBreakdown(const StepBreakdown& breakdown, double rounds_per_step,
                  nlohmann::ordered_json* line, StatusReply* recent) {
  double compute = 0;
  double exchange = 0;
  double all = 0;
  // Workers report per round, metrics lines per step.
  const auto milliseconds = [rounds_per_step](double round_seconds) {
    // Rounded to microseconds to keep the lines short.
    return std::round(1e6 * round_seconds * rounds_per_step) / 1e3;
  };
  nlohmann::ordered_json& workers = (*line)["workers"];
  workers = nlohmann::ordered_json::array();
  for (const WorkerStep& worker : breakdown.workers()) {
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
  recent->set_compute_share(all > 0 ? compute / all : 0);
  recent->set_exchange_share(all > 0 ? exchange / all : 0);
  recent->clear_waiting_rank();
  recent->clear_waiting_milliseconds();
  recent->clear_waiting_phase();
  if (!breakdown.straggler().has_value()) return;
  const Straggler& straggler = *breakdown.straggler();
  recent->set_waiting_rank(straggler.rank);
  recent->set_waiting_milliseconds(milliseconds(straggler.seconds));
  recent->set_waiting_phase(straggler.phase);
  (*line)["waiting"] = {{"rank", straggler.rank},
                        {"ms", recent->waiting_milliseconds()},
                        {"phase", straggler.phase}};
}

// Returns the number of buckets of each table.
std::vector<int> BucketsOf(const JobSpec& job) {
  std::vector<int> buckets;
  for (const SparseTableSpec& table : job.sparse().table()) {
    buckets.push_back(table.buckets());
  }
  return buckets;
}

}  // namespace

JobProgress::JobProgress(const JobSpec& job, const DataFacts& facts, int chunks,
                         int servers, std::optional<TrustRatios> trust_ratios)
    : job_(job),
      facts_(facts),
      rounds_(job, facts.steps()),
      sums_(rounds_.count(), chunks, servers, BucketsOf(job),
            std::move(trust_ratios)),
      breakdown_(std::min(servers, chunks)),
      evaluations_(job, facts, rounds_) {}

void JobProgress::Resume(int64_t version, const JobState& state) {
  first_round_ = version;
  sums_.Resume(version);
  if (state.has_loss()) last_loss_ = state.loss();
  total_sample_count_ = state.samples();
  skipped_steps_ = state.skipped_steps();
  trained_before_ = absl::Seconds(state.seconds());
  evaluations_.Restore(version, state);
}

JobState JobProgress::Save() const {
  JobState state;
  if (last_loss_.has_value()) state.set_loss(*last_loss_);
  state.set_samples(total_sample_count_);
  state.set_skipped_steps(skipped_steps_);
  state.set_seconds(absl::ToDoubleSeconds(trained()));
  evaluations_.Save(&state);
  return state;
}

void JobProgress::Begin(absl::Time now) {
  last_ = last_step_ = window_.begin = now;
  begin_ = now - trained_before_;
}

absl::StatusOr<std::optional<GradientNorm>> JobProgress::AddSums(
    int shard, const StepSums& sums, absl::Time now) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::optional<RoundSums::Round> complete,
                             sums_.Add(shard, sums));
  breakdown_.AddArrivals(sums);
  if (!complete.has_value()) return std::optional<GradientNorm>();
  return std::optional<GradientNorm>(Close(sums.step(), *complete, now));
}

GradientNorm JobProgress::Close(int64_t round, const RoundSums::Round& sums,
                                absl::Time now) {
  GradientNorm norm;
  norm.set_step(round);
  norm.set_norm(MeanGradientNorm(sums.squares, sums.sample_count));
  norm.mutable_trust_ratio()->Add(sums.trust_ratios.begin(),
                                  sums.trust_ratios.end());
  total_sample_count_ += sums.sample_count;
  stated_rate_ = sums.learning_rate;
  if (sums.nonfinite.has_value() || sums.nonfinite_row.has_value()) {
    nonfinite_ = NonfiniteGradient{rounds_.StepsAfter(round), sums.nonfinite,
                                   sums.nonfinite_row};
    if (job_.on_nonfinite() == JobSpec::SKIP) {
      skipped_steps_ +=
          rounds_.StepsAfter(round + 1) - rounds_.StepsAfter(round);
    }
  } else {
    last_norm_ = norm.norm();
    if (sums.nonfinite_loss_contributor != 0) {
      nonfinite_loss_ = NonfiniteLoss{rounds_.StepsAfter(round),
                                      sums.nonfinite_loss_contributor};
    } else {
      window_.sample_count += sums.sample_count;
      if (sums.loss_sum.has_value() && sums.sample_count > 0) {
        last_loss_ = *sums.loss_sum / static_cast<double>(sums.sample_count);
        window_.loss_sum += *sums.loss_sum;
        window_.loss_samples += sums.sample_count;
      }
    }
  }
  const int64_t completed = sums_.completed();
  const int64_t steps = completed_steps() - rounds_.StepsAfter(completed - 1);
  ++window_.rounds;
  window_.steps += steps;
  if (completed - first_round_ > kWarmUpRounds &&
      !evaluations_.Due(completed - 1)) {
    step_times_.milliseconds.push_back(
        absl::ToDoubleMilliseconds(now - last_step_) /
        static_cast<double>(steps));
    if (step_times_.milliseconds.size() > kStepTimes)
      step_times_.milliseconds.pop_front();
    step_times_.all.Add(absl::Milliseconds(step_times_.milliseconds.back()),
                        steps);
  }
  last_ = last_step_ = now;
  if (completed % rounds_.RoundsFor(job_.output().log_every_steps()) == 0 ||
      completed == rounds_.count()) {
    EmitTraining(now);
  }
  return norm;
}

void JobProgress::EmitTraining(absl::Time now) {
  const double seconds = std::max(
      1e-9, absl::ToDoubleSeconds(now - window_.begin - window_.evaluating));
  std::optional<double> loss;
  if (window_.loss_samples > 0) {
    loss = window_.loss_sum / static_cast<double>(window_.loss_samples);
  } else if (window_.sample_count == 0) {
    loss = last_loss_;
  }
  recent_.clear_loss();
  if (loss.has_value()) recent_.set_loss(*loss);
  recent_.set_gradient_norm(last_norm_);
  recent_.set_learning_rate(stated_rate_.value_or(
      LearningRateAt(job_, facts_.steps(), completed_steps() - 1)));
  recent_.set_samples_per_second(static_cast<double>(window_.sample_count) /
                                 seconds);
  recent_.set_seconds(absl::ToDoubleSeconds(now - begin_));
  recent_.set_step_milliseconds(1e3 * seconds /
                                static_cast<double>(window_.steps));
  nlohmann::ordered_json line = {
      {"step", completed_steps()},
      {"epoch", static_cast<double>(completed_steps()) /
                    static_cast<double>(facts_.steps_per_epoch())}};
  if (loss.has_value()) line["loss"] = *loss;
  line.update({
      {"learning_rate", recent_.learning_rate()},
      {"gradient_norm", last_norm_},
      {"samples", window_.sample_count},
      {"samples_per_second", recent_.samples_per_second()},
      {"step_seconds", seconds / static_cast<double>(window_.steps)},
      {"seconds", absl::ToDoubleSeconds(now - begin_)},
  });
  nlohmann::ordered_json resources = resources_.Take(now, now - begin_);
  // Readers find the lines with resources without parsing the arrays.
  if (!resources.is_null()) line["resources_count"] = resources.size();
  breakdown_.EndWindow(window_.rounds);
  AddBreakdown(
      breakdown_,
      static_cast<double>(window_.rounds) / static_cast<double>(window_.steps),
      &line, &recent_);
  if (!resources.is_null()) line["resources"] = std::move(resources);
  metrics_.push_back(line.dump());
  window_ = Window();
  window_.begin = now;
}

absl::StatusOr<bool> JobProgress::AddEvaluation(const EvaluationReport& report,
                                                absl::Time now) {
  TRIBUTARY_ASSIGN_OR_RETURN(const bool complete,
                             evaluations_.Add(report, now));
  if (!complete) return false;
  last_ = now;
  if (report.version() < rounds_.count()) {
    // No worker trained from the end of the last step until now.
    window_.evaluating += now - last_step_;
    evaluating_ += now - last_step_;
  }
  const Evaluation& evaluation = *evaluations_.evaluation();
  nlohmann::ordered_json line = {
      {"step", evaluation.step},
      {"evaluation_loss", evaluation.loss},
      {"evaluation_accuracy", evaluation.accuracy},
      {"seconds", absl::ToDoubleSeconds(now - begin_)}};
  for (const auto& [name, value] : evaluation.metrics) {
    line[absl::StrCat("evaluation_", name)] = value;
  }
  if (evaluations_.best_version().has_value()) line["best"] = true;
  const std::string& stop_reason = evaluations_.stop_reason();
  if (!stop_reason.empty()) line["stop_reason"] = stop_reason;
  metrics_.push_back(line.dump());
  return true;
}

bool JobProgress::EndAt(int64_t version, const std::string& reason) {
  if (!evaluations_.EndAt(version, reason)) return false;
  if (window_.rounds > 0) EmitTraining(last_step_);
  return true;
}

bool JobProgress::finished() const {
  const int64_t last = evaluations_.final_version();
  return round() == last &&
         (!evaluations_.Due(last) || evaluations_.evaluated_version() == last);
}

JobTotals JobProgress::Totals() const {
  JobTotals totals;
  totals.loss = last_loss_;
  totals.sample_count = total_sample_count_;
  totals.skipped_steps = skipped_steps_;
  totals.seconds = absl::ToDoubleSeconds(last_ - begin_);
  const double seconds = absl::ToDoubleSeconds(trained());
  if (seconds > 0) {
    totals.samples_per_second =
        static_cast<double>(total_sample_count_) / seconds;
  }
  return totals;
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
  if (round() > 0) {
    reply->set_seconds_left(
        absl::ToDoubleSeconds(trained()) *
        static_cast<double>(facts_.steps() - completed_steps()) /
        static_cast<double>(completed_steps()));
  }
  const std::optional<Evaluation>& evaluation = evaluations_.evaluation();
  reply->set_evaluation_version(evaluation.has_value() ? evaluation->step : -1);
  if (evaluation.has_value()) {
    reply->set_evaluation_loss(evaluation->loss);
    reply->set_evaluation_accuracy(evaluation->accuracy);
    reply->mutable_evaluation_metric()->insert(evaluation->metrics.begin(),
                                               evaluation->metrics.end());
  }
}

}  // namespace tributary

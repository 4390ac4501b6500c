// How far the job is: gradient norms, losses, evaluations, speed. A pure state
// machine over reports and a clock.
#ifndef TRIBUTARY_SERVER_PROGRESS_JOB_PROGRESS_H_
#define TRIBUTARY_SERVER_PROGRESS_JOB_PROGRESS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/job/rounds.h"
#include "nlohmann/json_fwd.hpp"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/progress/step_breakdown.h"

namespace tributary {

struct Evaluation {
  int64_t step = 0;  // After so many steps.
  double loss = 0;
  double accuracy = 0;
};

// What servers and workers report counts rounds (see Rounds); what is told to
// people counts the job's steps. Not thread-safe.
class JobProgress {
 public:
  // `job` is resolved. `chunks` of the model are dealt over `servers`.
  JobProgress(const JobSpec& job, const DataFacts& facts, int chunks,
              int servers);

  // Goes on from a checkpoint: rounds below `version` are done. Before Begin.
  void Resume(int64_t version, const JobState& state);
  // For the manifest of a checkpoint at version round().
  JobState Save() const;

  // The clock of speed and time left starts.
  void Begin(absl::Time now);

  // A server's sums of one round; rounds may come in any order. When it was the
  // last server's, the norm of the round's mean gradient: sums are added in the
  // order of chunks, so its bits do not depend on the number of servers.
  // InvalidArgument for what does not fit.
  absl::StatusOr<std::optional<GradientNorm>> AddSums(int shard,
                                                      const StepSums& sums,
                                                      absl::Time now);

  // Evaluation is wanted at this version.
  bool EvaluationDue(int64_t version) const;
  // The next version, after the one evaluated last, at which everybody waits
  // for evaluation, or the last of all.
  int64_t NextEvaluation() const;
  // True when the report was the one that completed the version's evaluation.
  // Repeats are ignored.
  absl::StatusOr<bool> AddEvaluation(const EvaluationReport& report,
                                     absl::Time now);

  // Steps of the rounds whose sums are all known.
  int64_t completed_steps() const {
    return rounds_.StepsAfter(completed_rounds_);
  }
  // Version of the finished model.
  int64_t final_version() const { return rounds_.count(); }
  // Newest version whose evaluation is complete; 0: none.
  int64_t evaluated_version() const { return evaluated_version_; }
  const std::optional<Evaluation>& evaluation() const { return evaluation_; }
  // All steps and the last evaluation are done.
  bool finished() const;
  double final_loss() const { return last_loss_; }
  // Since Begin, up to the last step, evaluations included.
  double seconds() const { return absl::ToDoubleSeconds(last_ - begin_); }
  double samples_per_second() const;
  // Milliseconds for a step, from the completion of one round to that of the
  // next, of the last kStepTimes rounds; without those around evaluations and
  // the first few.
  const std::deque<double>& step_milliseconds() const { return step_times_; }
  const DataFacts& facts() const { return facts_; }
  // Must be told of workers and their heartbeats; knows the arrivals.
  StepBreakdown* breakdown() { return &breakdown_; }
  const StepBreakdown& breakdown() const { return breakdown_; }

  // The gradient of the round that was closed last was not finite.
  struct NonfiniteGradient {
    int64_t step = 0;  // The round's first.
    // The non-finite chunk that backward came to first, and where in it.
    StepSums::Nonfinite place;
  };
  // Once for each such round.
  std::optional<NonfiniteGradient> TakeNonfinite();
  int64_t skipped_rounds() const { return skipped_rounds_; }

  // Lines for metrics.jsonl that have become due since the last call.
  std::vector<std::string> TakeMetrics();

  // Fills the reply's fields that this object knows.
  void FillStatus(StatusReply* reply) const;
  // The round in progress.
  int64_t round() const { return completed_rounds_; }
  // What a round takes is known.
  bool measured() const { return recent_.step_milliseconds() > 0; }
  // How long it has been in progress, if that is unusually long; else 0.
  absl::Duration Stalled(absl::Time now) const;

 private:
  // One round's sums while servers are missing.
  struct OpenRound {
    std::vector<double> squares;  // By chunk.
    std::vector<bool> reported;   // By shard.
    int missing = 0;
    int64_t sample_count = 0;
    double loss_sum = 0;
    std::optional<StepSums::Nonfinite> nonfinite;
  };
  // What the next metrics line is made of.
  struct Window {
    double loss_sum = 0;
    int64_t sample_count = 0;
    int64_t rounds = 0;
    int64_t steps = 0;  // Of these rounds.
    absl::Time begin;
    // Time spent in evaluations, which does not count as training.
    absl::Duration evaluating;
  };

  GradientNorm Close(int64_t round, const OpenRound& open, absl::Time now);
  void EmitTraining(absl::Time now);
  // The workers' part of a metrics line, and of the status.
  void EmitBreakdown(nlohmann::ordered_json* line);
  // `steps`: of the round that is complete.
  void RecordStepTime(absl::Time now, int64_t steps);

  const JobSpec job_;
  const DataFacts facts_;
  const Rounds rounds_;
  const int chunks_;
  const int servers_;

  std::map<int64_t, OpenRound> open_;
  int64_t first_round_ = 0;  // Of this process.
  int64_t completed_rounds_ = 0;
  // Every round below is complete; of the others, these.
  int64_t all_complete_below_ = 0;
  std::set<int64_t> complete_beyond_;
  std::optional<NonfiniteGradient> nonfinite_;
  int64_t skipped_rounds_ = 0;
  double last_loss_ = 0;
  double last_norm_ = 0;
  int64_t total_sample_count_ = 0;
  absl::Duration trained_before_;
  absl::Time begin_;
  absl::Time last_;
  absl::Time last_step_;
  absl::Duration evaluating_;
  Window window_;
  std::deque<double> step_times_;
  StepBreakdown breakdown_;
  StatusReply recent_;  // Figures of the last full window.

  int64_t evaluated_version_ = 0;
  std::optional<Evaluation> evaluation_;
  int64_t evaluating_version_ = 0;
  std::map<int64_t, EvaluationReport> pieces_;

  std::vector<std::string> metrics_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROGRESS_JOB_PROGRESS_H_

// The progress of a job: gradient norms, losses, evaluations and speed. A pure
// state machine over reports and a clock.
#ifndef TRIBUTARY_SERVER_PROGRESS_JOB_PROGRESS_H_
#define TRIBUTARY_SERVER_PROGRESS_JOB_PROGRESS_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/job/rounds.h"
#include "common/metrics/histogram.h"
#include "nlohmann/json_fwd.hpp"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/progress/evaluation_history.h"
#include "server/progress/resource_use.h"
#include "server/progress/step_breakdown.h"

namespace tributary {

// Tracks the progress of a job. Reports of servers and workers count rounds
// (with local SGD, a round is several steps of the job; otherwise it is one
// step); metrics and the status count the job's steps. Not thread-safe.
class JobProgress {
 public:
  // `job` is a result of ResolveJob. The model has `chunks` chunks, distributed
  // over `servers` servers.
  JobProgress(const JobSpec& job, const DataFacts& facts, int chunks,
              int servers);

  // Resumes from a checkpoint: the rounds below `version` are done. Call it
  // before Begin.
  void Resume(int64_t version, const JobState& state);
  // Returns the state to store in the manifest of a checkpoint at version
  // round().
  JobState Save() const;

  // Starts measuring the speed, from which the time left is estimated.
  void Begin(absl::Time now);

  // Adds a server's report about the gradients and losses of one round. Rounds
  // may complete in any order. Returns the norm of the round's mean gradient if
  // all servers have now reported, otherwise nullopt. The sums of squares are
  // added in the order of chunks, so the bits of the norm do not depend on the
  // number of servers. Returns InvalidArgument for a report that does not match
  // the job's state.
  absl::StatusOr<std::optional<GradientNorm>> AddSums(int shard,
                                                      const StepSums& sums,
                                                      absl::Time now);

  // Returns true if the job evaluates the weights of `version`.
  bool EvaluationDue(int64_t version) const;
  // Returns the next version to be evaluated, at which training waits until the
  // evaluation is complete. Returns the final version if no evaluation is due
  // before it.
  int64_t NextEvaluation() const;
  // Adds a worker's report of a part of an evaluation. Returns true if this
  // report completes the evaluation of its version. The job may then stop
  // early: this version becomes final_version(). Ignores repeated reports, and
  // reports about evaluations that are complete. Returns InvalidArgument for a
  // report that does not match the job.
  absl::StatusOr<bool> AddEvaluation(const EvaluationReport& report,
                                     absl::Time now);

  // Returns a piece of the evaluation of version round() that was not reported;
  // nullopt if no evaluation of this version is due.
  std::optional<int64_t> MissingPiece() const;
  // Returns the time of the last step, evaluation or report of a piece.
  absl::Time last_progress() const { return std::max(last_, last_piece_); }
  // Returns the number of completed steps of the job.
  int64_t completed_steps() const {
    return rounds_.StepsAfter(completed_rounds_);
  }
  // Returns the version of the finished model: the job's last version, or the
  // one at which the job stops early.
  int64_t final_version() const { return final_version_; }
  // Returns why the job stops early, in one line; empty if it does not.
  const std::string& stop_reason() const { return stop_reason_; }
  // Returns the best version if an evaluation has changed it since the last
  // call, so that the caller can take a checkpoint of it. Otherwise, and in
  // jobs without checkpoint.best, returns nullopt.
  std::optional<int64_t> TakeBest();
  const EvaluationHistory& history() const { return history_; }
  // Returns the newest version whose evaluation is complete, or 0 if there is
  // none.
  int64_t evaluated_version() const { return evaluated_version_; }
  const std::optional<Evaluation>& evaluation() const { return evaluation_; }
  // Returns true if all steps and the last evaluation are done.
  bool finished() const;
  double final_loss() const { return last_loss_; }
  // Returns the seconds from Begin to the end of the last step or evaluation,
  // plus the seconds of training that Resume has restored. The time since Begin
  // includes evaluations.
  double seconds() const { return absl::ToDoubleSeconds(last_ - begin_); }
  double samples_per_second() const;
  // Returns the milliseconds per step of up to 4096 recent rounds (a round is
  // one step or, with local SGD, several steps), measured from the completion
  // of one round to the completion of the next. Omits the first three rounds of
  // the attempt, and each round that follows an evaluation.
  const std::deque<double>& step_milliseconds() const { return step_times_; }
  // Returns the histogram of the seconds per step in the whole attempt, without
  // the rounds that step_milliseconds() omits.
  const Histogram& step_seconds() const { return step_seconds_; }
  // Returns the number of training samples (for text, of tokens) in all
  // completed steps.
  int64_t sample_count() const { return total_sample_count_; }
  const DataFacts& facts() const { return facts_; }
  // Returns the breakdown of the workers' time in a step. The caller must tell
  // it which workers there are, and pass it the counters from their heartbeats.
  // JobProgress itself passes it the arrival times of their contributions.
  StepBreakdown* breakdown() { return &breakdown_; }
  const StepBreakdown& breakdown() const { return breakdown_; }
  // Returns what the processes use. The caller must pass it the counters from
  // their heartbeats.
  ResourceUse* resources() { return &resources_; }

  // A round (one step; with local SGD, several) whose gradient was not finite.
  struct NonfiniteGradient {
    int64_t step = 0;  // First step of the round.
    // The first chunk with a non-finite element, in the order of the backward
    // pass, and the position of that element in the chunk.
    StepSums::Nonfinite place;
  };
  // If the gradient of the last completed round was not finite, returns that
  // round, once. Otherwise returns nullopt.
  std::optional<NonfiniteGradient> TakeNonfinite();
  // A round (one step; with local SGD, several) whose gradient was finite
  // although a worker's loss was NaN or infinite.
  struct NonfiniteLoss {
    int64_t step = 0;  // First step of the round.
    // The worker that reported the loss: its incarnation, which is the number
    // that a worker gets when it joins.
    int64_t contributor = 0;
  };
  // If the gradient of the last completed round was finite but a worker's loss
  // was NaN or infinite, returns that round, once. Otherwise returns nullopt.
  std::optional<NonfiniteLoss> TakeNonfiniteLoss();
  // Returns the number of steps of the job whose update was skipped because the
  // gradient was not finite.
  int64_t skipped_steps() const { return skipped_steps_; }

  // Returns the lines for metrics.jsonl that have become due since the last
  // call.
  std::vector<std::string> TakeMetrics();

  // Sets the fields of `*reply` that describe progress.
  void FillStatus(StatusReply* reply) const;
  // Returns the number, from 0, of the round in progress. A round is one step
  // or, with local SGD, several steps of the job.
  int64_t round() const { return completed_rounds_; }
  // Returns true if the status contains a measured time per step.
  bool measured() const { return recent_.step_milliseconds() > 0; }
  // Returns the time since the last step or evaluation if that is unusually
  // long for the job, otherwise 0.
  absl::Duration Stalled(absl::Time now) const;

 private:
  // What servers have reported about a round, until all servers have reported.
  struct OpenRound {
    std::vector<double> squares;  // Sums of squares, indexed by chunk.
    // True if the server has reported, indexed by shard.
    std::vector<bool> reported;
    int missing = 0;
    int64_t sample_count = 0;
    double loss_sum = 0;
    std::optional<StepSums::Nonfinite> nonfinite;
    int64_t nonfinite_loss_contributor = 0;
  };
  // Returns InvalidArgument, with the value and the expected value, if a report
  // about a piece of an evaluation (a part of the held-out data) states an
  // impossible number of samples or of correct predictions.
  absl::Status CheckPiece(const EvaluationReport& report) const;
  // Accumulates the values of the next line about training in metrics.jsonl.
  struct Window {
    double loss_sum = 0;
    int64_t sample_count = 0;
    int64_t rounds = 0;
    int64_t steps = 0;  // Number of steps in these rounds.
    absl::Time begin;
    // Time spent in evaluations, which does not count as training.
    absl::Duration evaluating;
  };

  // Decides whether `version`, the newest evaluated version, is the best
  // version, and whether the job stops early.
  void Judge(int64_t version);
  GradientNorm Close(int64_t round, const OpenRound& open, absl::Time now);
  void EmitTraining(absl::Time now);
  // Adds the fields `workers` and, if there is a straggler, `waiting` to
  // `*line`. Sets the compute and exchange shares and the straggler in
  // `recent_`.
  void EmitBreakdown(nlohmann::ordered_json* line);
  // Records the time per step of a round that had `steps` steps and was
  // completed at `now`. Omits the rounds that step_milliseconds() omits.
  void RecordStepTime(absl::Time now, int64_t steps);

  const JobSpec job_;
  const DataFacts facts_;
  const Rounds rounds_;
  const int chunks_;
  const int servers_;

  std::map<int64_t, OpenRound> open_;
  int64_t first_round_ = 0;  // The round at which this attempt began.
  int64_t completed_rounds_ = 0;
  // All rounds below this number are complete, but not this round itself.
  // complete_beyond_ holds the complete rounds above it.
  int64_t all_complete_below_ = 0;
  std::set<int64_t> complete_beyond_;
  std::optional<NonfiniteGradient> nonfinite_;
  std::optional<NonfiniteLoss> nonfinite_loss_;
  int64_t skipped_steps_ = 0;
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
  Histogram step_seconds_;
  StepBreakdown breakdown_;
  ResourceUse resources_;
  // The status fields that are measured between the last two lines about
  // training in metrics.jsonl, such as the speed. Other fields are not set.
  StatusReply recent_;

  int64_t evaluated_version_ = 0;
  std::optional<Evaluation> evaluation_;
  EvaluationHistory history_;
  std::optional<int64_t> best_version_;  // See TakeBest.
  std::string stop_reason_;
  int64_t final_version_;
  int64_t evaluating_version_ = 0;
  std::map<int64_t, EvaluationReport> pieces_;
  absl::Time last_piece_ = absl::InfinitePast();

  std::vector<std::string> metrics_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROGRESS_JOB_PROGRESS_H_

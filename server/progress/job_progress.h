// The progress of a job: gradient norms, losses, evaluations and speed. A pure
// state machine over reports and a clock.
#ifndef TRIBUTARY_SERVER_PROGRESS_JOB_PROGRESS_H_
#define TRIBUTARY_SERVER_PROGRESS_JOB_PROGRESS_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/latency_histogram.h"
#include "common/job/rounds.h"
#include "nlohmann/json_fwd.hpp"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/progress/evaluation_progress.h"
#include "server/progress/resource_use.h"
#include "server/progress/round_sums.h"
#include "server/progress/step_breakdown.h"

namespace tributary {

// What a job has done so far, including the part before Resume.
struct JobTotals {
  // The loss of the last round whose loss is known; nullopt: there is none.
  std::optional<double> loss;
  // Number of training samples (for text, of tokens) in all completed steps.
  int64_t sample_count = 0;
  // Number of samples per second of training, without evaluations.
  double samples_per_second = 0;
  // Seconds from the begin to the end of the last step or evaluation. Includes
  // evaluations since JobProgress::Begin.
  double seconds = 0;
  // Number of steps whose update was skipped because the gradient was not
  // finite.
  int64_t skipped_steps = 0;
};

// The times of the steps in an attempt, measured from the completion of one
// round (one step or, with local SGD, several steps) to the completion of the
// next. Omits the first three rounds of the attempt, and each round that
// follows an evaluation.
struct StepTimes {
  // Milliseconds per step of up to 4096 recent rounds.
  std::deque<double> milliseconds;
  // Time per step in the whole attempt.
  LatencyHistogram all;
};

// Tracks the progress of a job. Reports of servers and workers count rounds
// (with local SGD, a round is several steps of the job; otherwise it is one
// step); metrics and the status count the job's steps. Not thread-safe.
class JobProgress {
 public:
  // `job` is a result of ResolveJob. The model has `chunks` chunks, distributed
  // over `servers` servers. `trust_ratios` is absent unless the servers need
  // them.
  JobProgress(const JobSpec& job, const DataFacts& facts, int chunks,
              int servers,
              std::optional<TrustRatios> trust_ratios = std::nullopt);

  // Resumes from a checkpoint: the rounds below `version` are done. Call it
  // before Begin.
  void Resume(int64_t version, const JobState& state);
  // Returns the state to store in the manifest of a checkpoint at version
  // round().
  JobState Save() const;

  // Starts measuring the speed, from which the time left is estimated.
  void Begin(absl::Time now);

  // Adds a server's report about the gradients and losses of one round. Rounds
  // may complete in any order. Returns the norm of the round's mean gradient,
  // with the trust ratios, if all servers have now reported, otherwise nullopt.
  // The sums of squares are added in the order of chunks, so the bits of the
  // norm do not depend on the number of servers. Returns InvalidArgument for a
  // report that does not match the job's state.
  absl::StatusOr<std::optional<GradientNorm>> AddSums(int shard,
                                                      const StepSums& sums,
                                                      absl::Time now);

  // Adds a worker's report of a part of an evaluation. Returns true if this
  // report completes the evaluation of its version. The job may then stop
  // early; see EvaluationProgress::final_version. Ignores repeated reports, and
  // reports about evaluations that are complete. Returns InvalidArgument for a
  // report that does not match the job.
  absl::StatusOr<bool> AddEvaluation(const EvaluationReport& report,
                                     absl::Time now);

  // Ends the job early at `version`, which is round(), for this reason. Returns
  // false if the job ends at it anyway; see EvaluationProgress::EndAt.
  bool EndAt(int64_t version, const std::string& reason);

  // Returns the time of the last step, evaluation or report of a piece.
  absl::Time last_progress() const {
    return std::max(last_, evaluations_.last_piece());
  }
  // Returns the number of completed steps of the job.
  int64_t completed_steps() const { return rounds_.StepsAfter(round()); }
  // Returns true if all steps and the last evaluation are done.
  bool finished() const;
  JobTotals Totals() const;
  const EvaluationProgress& evaluations() const { return evaluations_; }
  const StepTimes& step_times() const { return step_times_; }
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
    // pass, and the position of that element in the chunk. Absent if only rows
    // are not finite.
    std::optional<StepSums::Nonfinite> place;
    std::optional<StepSums::NonfiniteRow> row;

    // Returns the incarnation of the worker that sent the gradient, or 0.
    int64_t contributor() const {
      return place.has_value() ? place->contributor() : row->contributor();
    }
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

  // Returns the lines for metrics.jsonl that have become due since the last
  // call.
  std::vector<std::string> TakeMetrics();

  // Sets the fields of `*reply` that describe progress.
  void FillStatus(StatusReply* reply) const;
  // Returns the number, from 0, of the round in progress. A round is one step
  // or, with local SGD, several steps of the job.
  int64_t round() const { return sums_.completed(); }
  // Returns the time since the last step or evaluation if that is unusually
  // long for the job, otherwise 0.
  absl::Duration Stalled(absl::Time now) const;

 private:
  // Accumulates the values of the next line about training in metrics.jsonl.
  struct Window {
    // The loss of the rounds whose loss is known, and their samples.
    double loss_sum = 0;
    int64_t loss_samples = 0;
    int64_t sample_count = 0;
    int64_t rounds = 0;
    int64_t steps = 0;  // Number of steps in these rounds.
    absl::Time begin;
    // Time spent in evaluations, which does not count as training.
    absl::Duration evaluating;
  };

  GradientNorm Close(int64_t round, const RoundSums::Round& sums,
                     absl::Time now);
  // Returns the time that was spent in training, without evaluations.
  absl::Duration trained() const { return last_step_ - begin_ - evaluating_; }
  void EmitTraining(absl::Time now);

  const JobSpec job_;
  const DataFacts facts_;
  const Rounds rounds_;

  RoundSums sums_;
  int64_t first_round_ = 0;  // The round at which this attempt began.
  std::optional<NonfiniteGradient> nonfinite_;
  std::optional<NonfiniteLoss> nonfinite_loss_;
  int64_t skipped_steps_ = 0;
  std::optional<double> last_loss_;
  double last_norm_ = 0;
  // The rate that the workers have stated for the newest round.
  std::optional<double> stated_rate_;
  int64_t total_sample_count_ = 0;
  absl::Duration trained_before_;
  absl::Time begin_;
  absl::Time last_;
  absl::Time last_step_;
  absl::Duration evaluating_;
  Window window_;
  StepTimes step_times_;
  StepBreakdown breakdown_;
  ResourceUse resources_;
  EvaluationProgress evaluations_;
  // The status fields that are measured between the last two lines about
  // training in metrics.jsonl, such as the speed. Other fields are not set.
  StatusReply recent_;

  std::vector<std::string> metrics_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROGRESS_JOB_PROGRESS_H_

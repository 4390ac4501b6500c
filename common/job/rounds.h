// Divides a job's steps into rounds. Workers and servers exchange gradients and
// weights once per round.
#ifndef TRIBUTARY_COMMON_JOB_ROUNDS_H_
#define TRIBUTARY_COMMON_JOB_ROUNDS_H_

#include <cstdint>

#include "proto/job.pb.h"

namespace tributary {

// Converts between steps and rounds. A round is what servers count as one step:
// in each round, they add the contributions of all micro-batches, apply one
// update, and create one version of the weights. In mode local_steps (local
// SGD) a round has `inner_steps` steps of the job, and the last round may have
// fewer; in all other modes it has one. Immutable.
class Rounds {
 public:
  // `job` must be valid and have `steps` steps.
  Rounds(const JobSpec& job, int64_t steps);

  // Number of rounds of the job. Servers count a round as one step.
  int64_t count() const { return RoundsFor(steps_); }
  // Returns the number of steps in the first `rounds` rounds. This is also the
  // number of the first step of round `rounds`. Steps and rounds are numbered
  // from 0.
  int64_t StepsAfter(int64_t rounds) const;
  // Returns the smallest number of rounds that have at least `steps` steps.
  int64_t RoundsFor(int64_t steps) const;

 private:
  int64_t steps_;
  int64_t steps_per_round_;
};

// Returns the job as the servers see it: each of its steps is a round of `job`,
// which is one step or, in mode local_steps (local SGD), `inner_steps` steps.
// In mode local_steps it has the outer optimizer, a constant learning rate and
// no clipping; in all other modes it is `job` itself. The fields steps and
// epochs keep the values that they have in `job`.
JobSpec JobOfRounds(const JobSpec& job);

// Returns true if the coordinator (server 0) may need a version of the weights,
// and the optimizer's state, after the evaluation of that version: with
// stop_when or checkpoint.best. The workers of an all-reduce then save the
// state of each version that is evaluated.
bool KeepsEvaluatedVersions(const JobSpec& job);

// Returns the rate at which servers update running statistics (parameters of
// group STATISTICS): in each round, they move a value towards the observed
// value by this fraction of the difference. The rate is kStatisticsRate, except
// in mode local_steps: there it is 1, because each micro-batch has already
// averaged the values over the steps of the round. `job` may be the result of
// JobOfRounds.
double StatisticsRate(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_ROUNDS_H_

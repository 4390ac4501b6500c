// How the job's steps are grouped for the exchange.
#ifndef TRIBUTARY_COMMON_JOB_ROUNDS_H_
#define TRIBUTARY_COMMON_JOB_ROUNDS_H_

#include <cstdint>

#include "proto/job.pb.h"

namespace tributary {

// A round is what servers count as a step: one reduction tree, one update, one
// version. In consistency mode local_steps it is `inner_steps` steps of the job
// (the last round may have fewer), in every other mode one. Immutable.
class Rounds {
 public:
  // `job` must be valid and have `steps` steps.
  Rounds(const JobSpec& job, int64_t steps);

  // In the whole job.
  int64_t count() const { return RoundsFor(steps_); }
  // Steps done after `rounds` rounds, which is also the first step of round
  // number `rounds`.
  int64_t StepsAfter(int64_t rounds) const;
  // The fewest rounds that have at least `steps` steps.
  int64_t RoundsFor(int64_t steps) const;

 private:
  int64_t steps_;
  int64_t steps_per_round_;
};

// The job whose steps are rounds, which is what servers run. In mode
// local_steps: the outer optimizer at a constant learning rate, and no
// clipping; else `job` itself.
JobSpec JobOfRounds(const JobSpec& job);

// How far servers move parameters of group STATISTICS towards what a round has
// observed: kStatisticsRate; in mode local_steps all the way, as trajectories
// have gone it step by step. `job` may be the job of rounds.
double StatisticsRate(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_ROUNDS_H_

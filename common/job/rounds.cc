#include "common/job/rounds.h"

#include "common/job/exchange_traits.h"
#include "common/optimizer/optimizer.h"

namespace tributary {

Rounds::Rounds(const JobSpec& job, int64_t steps)
    : steps_(steps), steps_per_round_(ResolveExchange(job).steps_per_round) {}

int64_t Rounds::StepsAfter(int64_t rounds) const {
  // Without a product that could overflow.
  return rounds >= RoundsFor(steps_) ? steps_ : rounds * steps_per_round_;
}

int64_t Rounds::RoundsFor(int64_t steps) const {
  return steps / steps_per_round_ + (steps % steps_per_round_ != 0);
}

JobSpec JobOfRounds(const JobSpec& job) {
  if (!ResolveExchange(job).local_sgd) return job;
  JobSpec outer = job;
  outer.clear_schedule();
  outer.clear_clip_norm();
  const OuterOptimizerSpec& from =
      ConsistencyOf(job).local_steps().outer_optimizer();
  SgdSpec* sgd = outer.mutable_optimizer()->mutable_sgd();
  sgd->set_learning_rate(from.learning_rate());
  sgd->set_momentum(from.momentum());
  sgd->set_nesterov(from.nesterov());
  sgd->set_weight_decay(0);
  return outer;
}

bool KeepsEvaluatedVersions(const JobSpec& job) {
  return job.has_stop_when() || job.checkpoint().has_best();
}

double StatisticsRate(const JobSpec& job) {
  return ResolveExchange(job).local_sgd ? 1 : kStatisticsRate;
}

}  // namespace tributary

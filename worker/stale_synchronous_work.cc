#include "worker/stale_synchronous_work.h"

namespace tributary {

bool StaleSynchronousWork::DecideTraining(int64_t version, Task* task) const {
  for (int64_t step = version; step <= version + staleness_; ++step) {
    // Steps from there on begin from evaluated weights.
    if (step > version && EvaluationDue(step)) return false;
    if (DealtLeaves(step, task)) return true;
  }
  return false;
}

bool StaleSynchronousWork::MustGiveUp(const Task& task) const {
  return over() || CompleteVersion() > task.version;
}

}  // namespace tributary

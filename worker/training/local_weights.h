// The weights of a local step.
#ifndef TRIBUTARY_WORKER_TRAINING_LOCAL_WEIGHTS_H_
#define TRIBUTARY_WORKER_TRAINING_LOCAL_WEIGHTS_H_

#include <cstdint>

#include "worker/nn/weights_view.h"
#include "worker/state/work_state.h"

namespace tributary {

// Weights that this worker has computed itself, so that they are all there.
// Used by the compute thread.
class LocalWeights final : public WeightsView {
 public:
  // `data` is an arena. All arguments must outlive this object.
  LocalWeights(const float* data, const Task& task, const WorkState& state)
      : WeightsView(data), task_(task), state_(state) {}

  // Returns false if the task must be given up.
  bool Await(int64_t, int64_t) const override { return !state_.GivenUp(task_); }

 private:
  const Task& task_;
  const WorkState& state_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_LOCAL_WEIGHTS_H_

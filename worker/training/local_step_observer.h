// Connects the computation of a local step to the trainer.
#ifndef TRIBUTARY_WORKER_TRAINING_LOCAL_STEP_OBSERVER_H_
#define TRIBUTARY_WORKER_TRAINING_LOCAL_STEP_OBSERVER_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "worker/nn/step_observer.h"
#include "worker/state/work_state.h"
#include "worker/training/compute_thread_timer.h"

namespace tributary {

// Observes the local steps of one round of local SGD, between which no
// gradients are exchanged. Aborts a step if the task must be given up, and
// records the sample count of the newest step.
class LocalStepObserver final : public StepObserver {
 public:
  LocalStepObserver(const WorkState* state, const Task* task,
                    ComputeThreadTimer* timer, LayerObserver* layers,
                    std::function<void()> device_busy)
      : state_(state),
        task_(task),
        timer_(timer),
        layers_(layers),
        device_busy_(std::move(device_busy)) {}

  bool WeightsNeeded(int64_t, int64_t) override {
    return !state_->GivenUp(*task_);
  }
  LayerObserver* layers() override { return layers_; }
  void DeviceBusy() override { device_busy_(); }
  void SetSampleCount(int64_t sample_count) override {
    sample_count_ = sample_count;
  }
  void ForwardDone() override { timer_->Switch(Activity::kBackward); }
  void GradientsReady(int64_t) override {}

  int64_t sample_count() const { return sample_count_; }

 private:
  const WorkState* const state_;
  const Task* const task_;
  ComputeThreadTimer* const timer_;
  LayerObserver* const layers_;
  const std::function<void()> device_busy_;
  int64_t sample_count_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_LOCAL_STEP_OBSERVER_H_

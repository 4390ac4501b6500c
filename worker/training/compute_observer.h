// Measures the phases of a micro-batch on a compute thread.
#ifndef TRIBUTARY_WORKER_TRAINING_COMPUTE_OBSERVER_H_
#define TRIBUTARY_WORKER_TRAINING_COMPUTE_OBSERVER_H_

#include <functional>
#include <utility>

#include "worker/nn/step_observer.h"
#include "worker/training/compute_thread_timer.h"

namespace tributary {

// Passes the phases of a micro-batch to the timer of its compute thread.
class ComputeObserver final : public StepObserver {
 public:
  // `layers`, which may be null, receives the times of layers. `device_busy` is
  // called by DeviceBusy. `timer` and `layers` must outlive this object.
  ComputeObserver(ComputeThreadTimer* timer, LayerObserver* layers,
                  std::function<void()> device_busy)
      : timer_(timer), layers_(layers), device_busy_(std::move(device_busy)) {}

  void OnPhase(Phase phase) override {
    timer_->Switch(phase == Phase::kAwaitWeights ? Activity::kExchange
                   : phase == Phase::kForward    ? Activity::kForward
                                                 : Activity::kBackward);
  }
  void DeviceBusy() override { device_busy_(); }
  LayerObserver* layers() override { return layers_; }

 private:
  ComputeThreadTimer* const timer_;
  LayerObserver* const layers_;
  const std::function<void()> device_busy_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_COMPUTE_OBSERVER_H_

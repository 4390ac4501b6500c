// The weights from which a compute thread computes one item of a task.
#ifndef TRIBUTARY_WORKER_EXCHANGE_TASK_WEIGHTS_H_
#define TRIBUTARY_WORKER_EXCHANGE_TASK_WEIGHTS_H_

#include <cstdint>

#include "common/parameters/arena_layout.h"
#include "common/parameters/memory_view.h"
#include "worker/exchange/device_arenas.h"
#include "worker/exchange/exchange.h"
#include "worker/nn/step_observer.h"
#include "worker/nn/weights_view.h"
#include "worker/state/work_state.h"

namespace tributary {

// Waits for the weights of a task. If the model computes in a device's own
// memory, copies them there, unless the exchange keeps them in that memory.
// Used by the compute thread.
class TaskWeights final : public WeightsView {
 public:
  // `device` holds the thread's arenas in device memory, or is null if the
  // model computes in host memory. `observer`, which may be null, is told when
  // Await begins to wait, and then that forward goes on. All arguments must
  // outlive this object. If weights are copied, Device::Synchronize must be
  // called before the task ends.
  TaskWeights(const Task& task, WorkState* state, const Exchange& exchange,
              DeviceArenas* device, StepObserver* observer);

  bool Await(int64_t begin, int64_t end) const override;

 private:
  TaskWeights(const Task& task, WorkState* state, const ArenaLayout& layout,
              const MemoryView& on_device, DeviceArenas* device,
              StepObserver* observer);
  // Copies elements [begin, end) to the device, each piece as soon as it is
  // available. Returns false if the task must be given up.
  bool LoadAsTheyArrive(int64_t begin, int64_t end) const;
  // Copies elements [begin, end), which must be available, to the device.
  void Load(int64_t begin, int64_t end) const;

  const Task& task_;
  WorkState* const state_;
  const ArenaLayout& layout_;
  const MemoryView on_device_;  // See Exchange::DeviceWeights.
  DeviceArenas* const copies_;  // Null if data() is where weights arrive.
  StepObserver* const observer_;
};

// Weights that this worker has computed itself from those of a task, so that
// they are all there. Used by the compute thread.
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

#endif  // TRIBUTARY_WORKER_EXCHANGE_TASK_WEIGHTS_H_

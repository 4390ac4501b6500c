// Measurement and trace of what one compute thread does.
#ifndef TRIBUTARY_WORKER_TRAINING_THREADS_COMPUTE_THREAD_H_
#define TRIBUTARY_WORKER_TRAINING_THREADS_COMPUTE_THREAD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/trace/trace_recorder.h"
#include "worker/nn/step_observer.h"
#include "worker/training/threads/compute_thread_timer.h"

namespace tributary {

// What the trace calls the backward pass for weights of a pipeline, if it is
// separate.
inline constexpr char kWeightsSpan[] = "backward for weights";

// Measures the activities of a compute thread and, in the traced steps (see
// OutputSpec.trace), records when the thread switches between them and when it
// computes each layer. Only that thread may call the methods; another thread
// may construct the object.
class ComputeThread final : public StepObserver {
 public:
  // `timer` measures the thread. `recorder` is null if no step is traced. Both
  // must outlive this object. `layers` is the result of Model::LayerNames.
  ComputeThread(int number, ComputeThreadTimer* timer, TraceRecorder* recorder,
                const std::vector<std::string>& layers);

  // Begins a micro-batch, or a piece of the evaluation data, of step `step`. If
  // this step is traced, what follows until End is recorded.
  void Begin(int64_t step, int64_t item);
  void End();
  void Switch(Activity next);
  // Like Switch. The trace calls the activity `span`, a string literal.
  void Switch(Activity next, const char* span);
  // Shows the thread on a track of the trace for the stages [begin, end) of a
  // pipeline from now on.
  void ShowStages(int begin, int end);
  // Records that the thread has waited from `begin` until now to begin the
  // step.
  void Waited(int64_t step, absl::Time begin);
  // Returns the time spent since the timer's last Take that determines how many
  // micro-batches the worker can compute.
  absl::Duration MicroBatchTime() const;

  // Sets the function that DeviceBusy calls from now on.
  void SetDeviceBusy(std::function<void()> device_busy) {
    device_busy_ = std::move(device_busy);
  }
  void OnPhase(Phase phase) override;
  void DeviceBusy() override { device_busy_(); }
  bool observes_layers() const override { return traced_; }
  void OnLayer(int layer, absl::Time begin, absl::Time end) override;

 private:
  int NameOf(const char* span);

  ComputeThreadTimer* const timer_;
  TraceRecorder* const recorder_;
  int track_ = 0;
  const char* span_ = nullptr;  // Of the current activity.
  // The recorder's names of spans. A span is named when it is first recorded,
  // which takes the recorder's lock.
  std::map<const char*, int> names_;
  std::vector<int> layers_;  // Names.
  std::function<void()> device_busy_;
  bool traced_ = false;
  TraceRecorder::About about_;
  absl::Time since_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_THREADS_COMPUTE_THREAD_H_

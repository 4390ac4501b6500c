// Traces one compute thread; see OutputSpec.trace.
#ifndef TRIBUTARY_WORKER_TRAINING_COMPUTE_TRACE_H_
#define TRIBUTARY_WORKER_TRAINING_COMPUTE_TRACE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/trace/trace_recorder.h"
#include "worker/nn/step_observer.h"
#include "worker/training/compute_thread_timer.h"

namespace tributary {

// In the traced steps, records when a compute thread switches between
// activities, such as reading data, and when it computes each layer. Only that
// thread may call the methods; another thread may construct the object.
class ComputeTrace final : public LayerObserver {
 public:
  // `recorder` must outlive this object. `layers` is the result of
  // Model::LayerNames.
  ComputeTrace(TraceRecorder* recorder, int thread,
               const std::vector<std::string>& layers);

  // Begins a micro-batch, or a piece of the evaluation data, in step `step`. If
  // this step is traced, the activities and layers that follow are recorded.
  void Begin(int64_t step, int micro_batch);
  // Ends the micro-batch. Activities and layers are not recorded until the next
  // Begin.
  void End() { active_ = false; }
  // Records that the thread has waited from `begin` until now to begin the
  // step.
  void Waited(int64_t step, absl::Time begin);

  // Returns this object if the current step is traced, otherwise null.
  LayerObserver* layers() { return active_ ? this : nullptr; }

  // Records that the thread has ended the activity `was`.
  void OnSwitch(Activity was);
  void OnLayer(int layer, bool backward, absl::Time begin,
               absl::Time end) override;

 private:
  TraceRecorder* const recorder_;
  const int track_;
  std::array<int, kActivities> activities_;  // Names.
  std::vector<int> layers_;                  // Names.
  bool active_ = false;
  TraceRecorder::About about_;
  absl::Time since_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_COMPUTE_TRACE_H_

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

// Records what a compute thread does in the traced steps: its activities, and
// within them the layers. Used by that thread only, except for the
// constructor, which must run before.
class ComputeTrace final : public ActivityObserver, public LayerObserver {
 public:
  // `recorder` must outlive this object. `layers` is Model::LayerNames.
  ComputeTrace(TraceRecorder* recorder, int thread,
               const std::vector<std::string>& layers);

  // Begins the micro-batch, or the piece of an evaluation, of this step. What
  // follows is recorded if the step is traced.
  void Begin(int64_t step, int micro_batch);
  // Ends the micro-batch. Nothing is recorded until the next Begin.
  void End() { active_ = false; }
  // Records that the thread has waited, since `begin`, until it could begin
  // the step.
  void Waited(int64_t step, absl::Time begin);

  // Returns this object if the step is traced, otherwise null.
  LayerObserver* layers() { return active_ ? this : nullptr; }

  void OnSwitch(Activity was) override;
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

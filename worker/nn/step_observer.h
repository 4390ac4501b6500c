// Callbacks from a network while it computes a micro-batch.
#ifndef TRIBUTARY_WORKER_NN_STEP_OBSERVER_H_
#define TRIBUTARY_WORKER_NN_STEP_OBSERVER_H_

#include <cstdint>

#include "absl/time/time.h"

namespace tributary {

// Receives the times at which the layers of a micro-batch begin and end.
class LayerObserver {
 public:
  virtual ~LayerObserver() = default;
  // Called on the compute thread after it has run forward or backward of layer
  // number `layer` (see Model::LayerNames). On a device with its own memory,
  // `begin` and `end` are the times at which the thread began and finished to
  // queue the layer. Not called for layers that are launched as captured
  // operations (see Capture).
  virtual void OnLayer(int layer, bool backward, absl::Time begin,
                       absl::Time end) = 0;
};

// Receives callbacks on the compute thread while a network computes a
// micro-batch, so that gradients and weights can be exchanged with other
// processes during the computation.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // Called before forward reads elements [begin, end) of the buffer that holds
  // all weights. May block until they are available. If it returns false, the
  // network stops computing the micro-batch at once, and ForwardBackward
  // returns Aborted.
  virtual bool WeightsNeeded(int64_t begin, int64_t end) = 0;
  // Called when the whole micro-batch has been queued and the compute thread is
  // about to wait for it, so that the next micro-batch can be prepared
  // meanwhile. Called only if the device has its own memory or a thread of the
  // user's program computes the micro-batch, and never for an empty one.
  virtual void DeviceBusy() {}
  // Returns the object that receives the times at which layers begin and end.
  // If it returns null, the times are not measured. The network calls this for
  // each layer, in forward and in backward, except for layers that are launched
  // as captured operations.
  virtual LayerObserver* layers() { return nullptr; }
  // Replaces the number of samples (tokens) of the micro-batch, which by
  // default is the number of targets that count (those whose label is not -1).
  // The gradient sum of a step is divided by the sum of these numbers over its
  // micro-batches. Called at most once, before the first GradientsReady, by
  // models that leave samples out of the loss.
  virtual void SetSampleCount(int64_t /*sample_count*/) {}
  // Called after forward, including the loss. On a device with its own memory,
  // backward has already been queued. Not called for an empty micro-batch.
  virtual void ForwardDone() {}
  // Called when the gradients from element `begin` to the end of the gradient
  // buffer are final: operations queued from now on may read them. On devices
  // that run operations synchronously, the host may also read them. Called with
  // decreasing `begin`; the last call has `begin` 0.
  virtual void GradientsReady(int64_t begin) = 0;
};

struct LossSums {
  // Sum of the losses over samples (tokens), using the natural logarithm.
  double loss = 0;
  // Number of samples (tokens) whose target has the largest logit; 0 for
  // regression.
  int64_t correct = 0;
  int64_t sample_count = 0;  // Number of samples (tokens) that count.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_STEP_OBSERVER_H_

// Callbacks from a network while it computes a micro-batch.
#ifndef TRIBUTARY_WORKER_NN_STEP_OBSERVER_H_
#define TRIBUTARY_WORKER_NN_STEP_OBSERVER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/numerics/score_histogram.h"

namespace tributary {

// Receives callbacks on the compute thread while a network computes a
// micro-batch.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // What the compute thread does for the micro-batch.
  enum class Phase {
    kAwaitWeights,
    kForward,
    // After forward, including the loss. On a device with its own memory,
    // backward has already been queued.
    kBackward,
  };
  // Called when a phase begins. A micro-batch begins with kForward, without a
  // call. An empty micro-batch has no kBackward.
  virtual void OnPhase(Phase /*phase*/) {}
  // Called when the whole micro-batch has been queued and the compute thread is
  // about to wait for it, so that the next micro-batch can be prepared
  // meanwhile. Called only if the device has its own memory or a thread of the
  // user's program computes the micro-batch, and never for an empty one.
  virtual void DeviceBusy() {}
  // Returns true if OnLayer must be called.
  virtual bool observes_layers() const { return false; }
  // Called after the thread has run forward or backward of layer number `layer`
  // (see Model::LayerNames). On a device with its own memory, `begin` and `end`
  // are the times at which the thread began and finished to queue the layer.
  // Not called for layers that are launched as captured operations (see
  // Capture).
  virtual void OnLayer(int /*layer*/, absl::Time /*begin*/,
                       absl::Time /*end*/) {}
};

struct LossSums {
  // Sum of the losses over samples (tokens), using the natural logarithm.
  double loss = 0;
  // Number of samples (tokens) whose target has the largest logit; 0 for
  // regression.
  int64_t correct = 0;
  int64_t sample_count = 0;  // Number of samples (tokens) that count.
  // False if the program that computes the model has not reported `loss`.
  bool has_loss = true;
  // A further result of an evaluation, whose value is sum / count.
  struct Metric {
    std::string name;
    double sum = 0;
    double count = 0;
  };
  std::vector<Metric> metrics = {};
  // In evaluations with a binary cross-entropy: the logits of the samples that
  // count.
  ScoreHistogram scores = {};
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_STEP_OBSERVER_H_

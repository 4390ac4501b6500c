// What a network tells, and asks, while it computes a leaf.
#ifndef TRIBUTARY_WORKER_NN_STEP_OBSERVER_H_
#define TRIBUTARY_WORKER_NN_STEP_OBSERVER_H_

#include <cstdint>

namespace tributary {

// Called while a network computes, on the computing thread, so that the
// exchange can overlap with it.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // Elements [begin, end) of the weights arena are about to be read, in
  // forward. May block until they are there. Returns false to make the network
  // give up the leaf at once (ForwardBackward then returns Aborted).
  virtual bool WeightsNeeded(int64_t begin, int64_t end) = 0;
  // A device with memory of its own has been given all of the leaf, and the
  // host would wait for it now: the time for what else there is to do. Not
  // called elsewhere, nor for an empty leaf.
  virtual void DeviceBusy() {}
  // Forward is done, the loss included: backward begins. A device with memory
  // of its own has been given backward before that. An empty leaf has neither.
  virtual void ForwardDone() {}
  // Elements [begin, arena end) of the gradient arena are final, for operations
  // from now on and, where those are done at once, for the host. Called with
  // falling `begin`, last with 0.
  virtual void GradientsReady(int64_t begin) = 0;
};

struct LossSums {
  double loss = 0;  // Sum of the loss over samples (tokens), natural logarithm.
  int64_t correct = 0;  // Samples (tokens) whose largest logit is the target; 0
                        // for regression.
  int64_t sample_count = 0;  // Number of samples (tokens).
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_STEP_OBSERVER_H_

// The update rule of a program, in the place of one of the optimizers of
// Tributary.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_PROGRAM_RULE_H_
#define TRIBUTARY_COMMON_OPTIMIZER_PROGRAM_RULE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace tributary {

// The update rule of a job with `optimizer { program {} }`, which a program
// implements: each worker applies it to the mean gradient of each step. All
// workers compute the same updates from the same values, so the results must
// have the same bits on every worker.
//
// The calls come from a thread of the library, one at a time, in the order of
// the steps. The worker publishes no weights while a call runs. An error is one
// line for the user, and ends the worker.
class ProgramRule {
 public:
  // One step. Each array has one element for each parameter, in the order of
  // their declaration, which points to as many values as the parameter has. The
  // memory is host memory that is valid during the call.
  struct Update {
    int64_t step = 0;  // Counted from 0.
    std::vector<const float*> weights;
    // The mean gradients, clipped if the job sets clip_norm. The rule may
    // overwrite them. Null for running statistics (parameters of group
    // kStatistics), which the worker updates itself.
    std::vector<float*> gradients;
    // Receive the weights after the step; never overlaps `weights`. The rule
    // must write those of all parameters that have a gradient.
    std::vector<float*> new_weights;
  };

  virtual ~ProgramRule() = default;

  // Makes the state of the rule, such as momentum, what Save has written to
  // `state`, possibly in another process. If all bytes of `state` are 0, makes
  // it what it was before the first step. Called before the first step that the
  // worker computes, and again after the loss of a worker or a server.
  virtual absl::Status Load(absl::Span<const char> state) = 0;
  virtual absl::Status Apply(const Update& update) = 0;
  // Writes the state of the rule after the last call of Apply or Load to
  // `state`, whose bytes are 0. Its size is that of state_arrays arrays with
  // one float for each element of the model (see ProgramRuleSpec). Called only
  // after steps of which the worker saves the state.
  virtual absl::Status Save(absl::Span<char> state) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OPTIMIZER_PROGRAM_RULE_H_

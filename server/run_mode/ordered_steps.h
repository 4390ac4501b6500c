// The run mode of synchronous training, bounded staleness and local SGD.
#ifndef TRIBUTARY_SERVER_RUN_MODE_ORDERED_STEPS_H_
#define TRIBUTARY_SERVER_RUN_MODE_ORDERED_STEPS_H_

#include "server/run_mode/run_mode.h"

namespace tributary {

// The run mode in which steps are applied in order, and all workers compute a
// part of each step. Workers and servers decide without the coordinator how far
// a worker may run ahead (see WorkState and ConsistencyPolicy), so this mode
// consists of RunMode's defaults.
class OrderedSteps final : public RunMode {
 public:
  using RunMode::RunMode;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_RUN_MODE_ORDERED_STEPS_H_

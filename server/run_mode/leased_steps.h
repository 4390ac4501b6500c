// The run mode of asynchronous training.
#ifndef TRIBUTARY_SERVER_RUN_MODE_LEASED_STEPS_H_
#define TRIBUTARY_SERVER_RUN_MODE_LEASED_STEPS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/rendezvous.pb.h"
#include "server/run_mode/run_mode.h"
#include "server/run_mode/step_leases.h"

namespace tributary {

// The run mode of asynchronous training. One worker computes each step, and
// holds the lease of the step (the right to compute it) until the step has been
// applied. The steps of a lost worker are leased to other workers.
class LeasedSteps final : public RunMode {
 public:
  using RunMode::RunMode;

  void Begin(int64_t version, const Ready& ready) override;
  // Assigns only pieces of evaluations (parts of the held-out data) to workers,
  // and no micro-batches, because a lease covers all micro-batches of its step.
  std::map<int64_t, std::vector<CoordinatorOrder>> Assign(
      int64_t pieces, absl::Time now) override;
  void GrantSteps(int64_t limit) override;
  const Member* Awaited(int64_t step) const override;
  void OnStepComplete(int64_t step) override { step_leases_.Complete(step); }
  absl::Status RequestStep(const Member& worker) override;
  void RemoveWorker(int64_t worker) override { step_leases_.Remove(worker); }
  // Returns the first step that was never leased. A checkpoint cannot be taken
  // at an earlier version, because the leased steps may be applied at any time.
  int64_t earliest_checkpoint() const override { return step_leases_.next(); }

 private:
  StepLeases step_leases_{/*limit=*/0};
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_RUN_MODE_LEASED_STEPS_H_

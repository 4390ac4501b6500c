// The connection between the trainer's compute threads, which decide what is
// computed, and the thread of the user's program, which computes it.
#ifndef TRIBUTARY_LIBRARY_HANDOVER_H_
#define TRIBUTARY_LIBRARY_HANDOVER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/parameters/untrained_tensor.h"
#include "library/parameter_declarations.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/device/device.h"
#include "worker/nn/gradient_sink.h"
#include "worker/nn/step_observer.h"
#include "worker/nn/weights_view.h"

namespace tributary {

// An item that the user's program computes: a micro-batch whose gradient is
// needed, or a piece of the evaluation data. The trainer owns all objects and
// all memory that the pointers refer to.
struct Work {
  // Status with which the program has finished the item; unset until
  // Handover::Done.
  std::optional<absl::Status> done;
  // True for a piece of the evaluation data.
  bool evaluates = false;
  const Batch* batch = nullptr;
  // The device in whose memory `weights` and `gradients` are; null if they are
  // in host memory. The thread that works on the item may use it.
  Device* device = nullptr;
  const WeightsView* weights = nullptr;
  // Set by the program's thread before Handover::Done.
  LossSums result;
  // Not null if the program is to return its untrained tensors here, after
  // `step` steps of the job. The other fields are then not used.
  std::vector<UntrainedTensor>* untrained = nullptr;
  // The fields below are used for training only.
  uint64_t seed = 0;
  int64_t step = -1;
  int micro_batch = 0;
  GradientSink* gradients = nullptr;
  StepObserver* observer = nullptr;
};

// Passes the job, and then items of work, from the trainer's compute threads to
// one thread of the user's program, which computes them, and passes the results
// back. Each compute thread waits while its item is queued or computed, so the
// program may use the item's memory and its observer without further locks.
// With two compute threads, the next item is queued before the program finishes
// one: the program does not wait for the trainer between the micro-batches of a
// step.
//
// Thread-safe, but only one thread at a time may call the methods of the
// program's thread. Waits have no timeout: Close ends the waits of the trainer,
// and End ends the waits of the program.
class Handover {
 public:
  // ---- Called by the trainer's threads.
  // Offers the job, and blocks until the program has answered with Answer.
  // Returns the answer, or Cancelled after Close. A later call returns the same
  // answer, or FailedPrecondition if `job` has a different model or different
  // data than the job of the first call.
  absl::StatusOr<std::shared_ptr<const ParameterDeclarations>> Offer(
      const JobSpec& job, const JobInfo& info);
  // Queues `work` for the program, calls DeviceBusy of its observer, if it has
  // one, and blocks until the program has finished it. Returns the status that
  // the program passed to Done, or Cancelled after Close.
  absl::Status Do(Work* work);
  // Signals that there will be no more work. `status` is the reason.
  void End(const absl::Status& status);

  // ---- Called by the program's thread.
  // Blocks until the trainer has offered the job, and returns the job. Returns
  // nullopt if End is called first.
  std::optional<JobInfo> AwaitJob();
  // Answers Offer with the declared parameters, or with the error for which the
  // program refuses the job.
  void Answer(
      absl::StatusOr<std::shared_ptr<const ParameterDeclarations>> answer);
  // Blocks until there is work, and returns the item that was queued first.
  // Returns the same item until Done is called. Returns null after End.
  Work* Await();
  // Finishes the item that Await has returned, and passes `status` to the
  // trainer.
  void Done(const absl::Status& status);
  // Ends the trainer's waits, now and in the future.
  void Close();
  // Returns OK until End is called, and then the status that End received. May
  // be called by any thread.
  absl::Status end() const;
  // Returns true after End. May be called by any thread.
  bool ended() const;

 private:
  mutable absl::Mutex mu_;
  std::optional<JobSpec> job_ ABSL_GUARDED_BY(mu_);
  JobInfo info_ ABSL_GUARDED_BY(mu_);
  std::optional<absl::StatusOr<std::shared_ptr<const ParameterDeclarations>>>
      answer_ ABSL_GUARDED_BY(mu_);
  std::deque<Work*> queue_ ABSL_GUARDED_BY(mu_);  // Items without a result.
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_LIBRARY_HANDOVER_H_

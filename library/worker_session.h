// Runs a worker whose gradients a program computes, and implements the classes
// with which the program does so.
#ifndef TRIBUTARY_LIBRARY_WORKER_SESSION_H_
#define TRIBUTARY_LIBRARY_WORKER_SESSION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/buffer_pool.h"
#include "common/base/shutdown.h"
#include "common/base/thread.h"
#include "common/os/logger.h"
#include "library/handover.h"
#include "library/micro_batch_state.h"
#include "library/parameter_declarations.h"
#include "proto/job.pb.h"
#include "tributary/worker.h"
#include "worker/device/device.h"
#include "worker/process/worker_process.h"
#include "worker/sparse/announced_rows.h"

namespace tributary {

// Implements Worker, the class with which a program takes part in a job. Runs
// RunWorker on a separate thread, with ProgramModels, which pass their work to
// the program's thread, and with data that consist only of the indexes of
// samples. Leases, exchanges, consistency modes and joining again are therefore
// implemented by the same code as in `tributary worker`. Methods must be called
// by the program's thread, unless noted otherwise.
class WorkerSession {
 public:
  // Starts the worker's threads. The `threads`, `make_device`, `sources` and
  // `log` of `process` are not used.
  WorkerSession(WorkerOptions process, std::unique_ptr<Logger> log);
  // Leaves the job. Blocks until the worker's connections are closed.
  ~WorkerSession();

  // Blocks until the job is known or the worker has ended. Must be called
  // before the other methods. Returns the error with which the worker has
  // ended, or OutOfRange if it has ended without an error because the job was
  // done.
  absl::Status AwaitJob();

  // These methods implement the methods of Worker and Step with the same names.
  const JobInfo& job() const { return job_; }
  absl::Status UseGpu(int gpu);
  absl::Status PinForGpu(int gpu);
  absl::Status SetRule(std::shared_ptr<ProgramRule> rule);
  absl::Status Declare(const std::vector<ParameterDeclaration>& parameters);
  void KeepLastWeights() { keeps_last_weights_ = true; }
  absl::Span<const float> LastWeights(int parameter) const;
  void SetUntrained(
      std::function<std::vector<UntrainedTensor>(int64_t steps)> collect) {
    collect_untrained_ = std::move(collect);
  }
  absl::Status EndJob();
  int rank() const { return rank_; }
  int workers() const { return workers_; }
  void Announce(int64_t step, int micro_batch,
                const std::vector<std::pair<int, absl::Span<const uint64_t>>>&
                    feature_keys);
  Step* NextStep();
  int64_t step_number() const { return step_number_; }
  MicroBatch* NextMicroBatch();
  EvaluationPiece* NextPiece();
  absl::Status status() const;
  // Returns true if the job has ended for this worker.
  bool ended() const { return handover_.ended(); }
  // Implements Worker::Stop. May be called by any thread.
  void Stop() { shutdown_.Request(); }

 private:
  // Returns the data and the model for RunWorker, which calls these functions
  // on its own threads.
  TrainingSources Sources();
  // Pins memory if the program has called UseGpu or PinForGpu, and hides it
  // from child processes. Returns null otherwise, for less than a page, and on
  // failure; the first failure logs a warning. Called by the threads of
  // RunWorker.
  std::shared_ptr<void> Pin(void* memory, size_t bytes);
  // Ends the item (micro-batch or piece) that the program has received last.
  void LeaveItem();
  // Blocks until there is work, and returns it. Returns null when there is no
  // more work. After an error of the program, returns no further work, but
  // finishes each item of work with this error, which ends the worker.
  Work* AwaitWork();
  // Ends the last item, and returns the next work if it belongs to the step
  // that NextStep has returned. Otherwise returns null. `evaluates` is the kind
  // of work that the caller wants (see Work::evaluates); returns null if the
  // step is of the other kind.
  Work* AwaitWorkOfStep(bool evaluates);

  const std::unique_ptr<Logger> log_;
  Shutdown shutdown_;
  Handover handover_;
  // Used only by the threads of RunWorker.
  JobSpec offered_job_;
  JobInfo offered_;
  // Set by the program's thread before its Answer to handover_, and read by the
  // threads of RunWorker after it. The program's thread calls
  // `collect_untrained_`, which is null if there is nothing to collect. `gpu_`
  // is the argument of UseGpu. `pin_for_gpu_` is null until UseGpu or
  // PinForGpu.
  std::shared_ptr<ProgramRule> rule_;
  std::function<std::vector<UntrainedTensor>(int64_t)> collect_untrained_;
  std::optional<int> gpu_;
  PinMemory pin_for_gpu_;
  std::atomic<bool> warned_of_pinning_ = false;
  const std::shared_ptr<AnnouncedRows> announced_rows_ =
      std::make_shared<AnnouncedRows>();
  // Set by the threads of RunWorker.
  std::atomic<int> rank_ = 0;
  std::atomic<int> workers_ = 1;
  std::atomic<bool> keeps_last_weights_ = false;
  // The arena of the job's last weights, if it is kept. Set by the threads of
  // RunWorker, and read by the program's thread after handover_.ended().
  std::vector<float> last_weights_;

  // The fields below are used by the program's thread only.
  JobInfo job_;
  std::shared_ptr<const ParameterDeclarations> declared_;
  absl::Status error_;  // The first error of the program.
  Step step_;
  bool has_step_ = false;
  bool step_evaluates_ = false;
  int64_t step_number_ = 0;
  bool item_taken_ = false;  // True if an item of the step was taken.
  std::optional<MicroBatchState> micro_batch_state_;
  std::optional<MicroBatch> micro_batch_;
  std::optional<PieceState> piece_state_;
  std::optional<EvaluationPiece> piece_;

  Thread thread_;
};

}  // namespace tributary

#endif  // TRIBUTARY_LIBRARY_WORKER_SESSION_H_

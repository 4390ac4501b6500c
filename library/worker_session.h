// Runs the production worker for a program, and the program's side of it.
#ifndef TRIBUTARY_LIBRARY_WORKER_SESSION_H_
#define TRIBUTARY_LIBRARY_WORKER_SESSION_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/shutdown.h"
#include "common/base/thread.h"
#include "common/os/log.h"
#include "library/handover.h"
#include "library/micro_batch_state.h"
#include "library/parameter_declarations.h"
#include "tributary/worker.h"
#include "worker/process/worker_process.h"

namespace tributary {

// Implements Worker. RunWorker runs on a thread of this object, with data that
// consist of indexes and a model that hands its work to the program's thread.
// Leases, exchanges, consistency modes and joining again are therefore those of
// `tributary worker`. Called by the program's thread, except where noted.
class WorkerSession {
 public:
  // Starts the worker's thread. `process` has no sources, and one thread.
  WorkerSession(WorkerOptions process, std::unique_ptr<Logger> log);
  // Leaves the job. Blocks until the connections are closed.
  ~WorkerSession();

  // Blocks until the job is known, or the worker has ended. Call it first.
  // Returns the worker's error if it has ended with one, and OutOfRange if the
  // job was done before.
  absl::Status AwaitJob();

  // See Worker and Step.
  const JobInfo& job() const { return job_; }
  absl::Status Declare(const std::vector<ParameterDeclaration>& parameters);
  Step* NextStep();
  int64_t step_number() const { return step_number_; }
  MicroBatch* NextMicroBatch();
  EvaluationPiece* NextPiece();
  absl::Status status() const;
  // Returns true if the job has ended for this worker.
  bool ended() const { return handover_.ended(); }
  // Called by any thread.
  void Stop() { shutdown_.Request(); }

 private:
  // The functions that the production worker calls on its thread.
  TrainingSources Sources();
  // Ends the item that the program has received last.
  void LeaveItem();
  // Blocks until there is work, and returns it. After an error, answers all
  // work with the error, so that null is returned soon.
  Work* AwaitWork();
  // Returns the next work if it belongs to the program's step, otherwise null.
  Work* AwaitWorkOfStep(bool evaluates);

  const std::unique_ptr<Logger> log_;
  Shutdown shutdown_;
  Handover handover_;
  JobInfo offered_;  // Used by the worker's thread.

  // Used by the program's thread.
  JobInfo job_;
  std::shared_ptr<const ParameterDeclarations> declared_;
  absl::Status error_;  // The first error of the program.
  Step step_;
  bool has_step_ = false;
  bool step_evaluates_ = false;
  int64_t step_number_ = 0;
  bool item_taken_ = false;  // The program has taken an item of the step.
  std::optional<MicroBatchState> micro_batch_state_;
  std::optional<MicroBatch> micro_batch_;
  std::optional<PieceState> piece_state_;
  std::optional<EvaluationPiece> piece_;

  Thread thread_;
};

}  // namespace tributary

#endif  // TRIBUTARY_LIBRARY_WORKER_SESSION_H_

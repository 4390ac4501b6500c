// A worker's training, from the moment it can exchange gradients to its
// farewell.
#ifndef TRIBUTARY_WORKER_PROCESS_WORKER_PART_H_
#define TRIBUTARY_WORKER_PROCESS_WORKER_PART_H_

#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/pulse.h"
#include "common/metrics/process_meter.h"
#include "common/trace/trace_recorder.h"
#include "common/trace/trace_sender.h"
#include "proto/rendezvous.pb.h"
#include "worker/exchange/exchange.h"
#include "worker/process/membership_client.h"
#include "worker/process/worker_process.h"
#include "worker/state/work_state.h"
#include "worker/training/trainer.h"
#include "worker/training/training_setup.h"

namespace tributary {

// What a worker learns about itself while it takes part in a job.
struct StayFacts {
  bool admitted = false;  // The coordinator has admitted this worker.
  bool over = false;      // The worker must not join again.
  // A device has failed. This process cannot use it again, so the worker must
  // not join again.
  bool device_failed = false;
  bool failed_here = false;  // The error is not one of a connection.
};

// Connects a Trainer with the coordinator: sends heartbeats, reports and traced
// steps, and registers metrics. Not thread-safe.
class WorkerPart {
 public:
  // All arguments must outlive this object. `beat` is the interval of
  // heartbeats.
  WorkerPart(const WorkerOptions& options, const Admission& admission,
             TrainingSetup* setup, MembershipClient* membership,
             absl::Duration beat, StayFacts* stay);
  ~WorkerPart();
  WorkerPart(const WorkerPart&) = delete;
  WorkerPart& operator=(const WorkerPart&) = delete;

  // Returns the recorder of the traced steps, or null if no step is traced.
  TraceRecorder* recorder() const {
    return trace_ == nullptr ? nullptr : trace_->recorder();
  }
  // Sends heartbeats in `phase` until the next call, or until Train.
  void Beat(const char* phase);
  // Notes how many micro-batches the worker computes. Only for assignments that
  // arrive before Train.
  void NoteAssignment(const Deal& deal);
  // Notes in StayFacts whether a device of the worker has failed.
  void CheckDevices();

  // Trains until the job is done, and then says farewell. Returns the error of
  // the state, of the exchange or of the trainer. May be called again after an
  // error of the state.
  absl::Status Train(WorkState* state, Exchange* exchange,
                     const ComputedParts& parts = {});

 private:
  // Sends the program's untrained tensors, if the coordinator has asked for
  // them.
  void SendUntrained();
  ProcessStatistics Statistics(const Trainer& trainer,
                               const Exchange& exchange);

  const WorkerOptions& options_;
  const Admission& admission_;
  TrainingSetup* const setup_;
  MembershipClient* const membership_;
  const absl::Duration beat_;
  StayFacts* const stay_;
  const std::unique_ptr<TraceSender> trace_;  // Null if no step is traced.
  bool trace_begun_ = false;
  const ProcessMeter meter_;
  const int threads_;               // At the start.
  std::atomic<int> micro_batches_;  // Of the newest assignment.
  bool notified_ = false;           // The first step has been announced.
  std::unique_ptr<Pulse> pulse_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_PROCESS_WORKER_PART_H_

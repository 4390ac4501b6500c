// Membership stream from a worker to the coordinator.
#ifndef TRIBUTARY_WORKER_PROCESS_MEMBERSHIP_CLIENT_H_
#define TRIBUTARY_WORKER_PROCESS_MEMBERSHIP_CLIENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/stream/message_stream.h"
#include "proto/rendezvous.pb.h"
#include "worker/state/work_state.h"

namespace tributary {

// Marks a status that says that the job is done, so that the worker has nothing
// left to do. The mark, not the code, has this meaning: other errors of a
// worker may have the same code.
absl::Status JobDoneStatus();
bool IsJobDone(const absl::Status& status);

using MembershipStream = ClientStream<CoordinatorOrder, WorkerReport>;

// Joins the job, passes the coordinator's orders to the WorkState, and sends
// reports. Every report renews the worker's lease, which is how long the worker
// may be silent before the coordinator treats it as lost; the caller must send
// heartbeats in time. If the connection ends, the methods that wait return
// Unavailable or the code with which the coordinator ended the stream; the
// message names the coordinator. If
// the coordinator ends the stream because the job is done, they return
// JobDoneStatus(). Must stay alive until AwaitDone has returned.
// Thread-safe.
class MembershipClient final
    : private ClientSession<CoordinatorOrder, WorkerReport> {
 public:
  // Starts the stream and sends `join` to the coordinator. Must be called once,
  // before the other methods. `address` appears in error messages.
  void Begin(std::unique_ptr<MembershipStream> stream,
             const std::string& address, const Join& join);

  void Send(const WorkerReport& report) { stream_->Send(report); }
  // Closes this side of the stream: no further report may be sent.
  void HalfClose() { stream_->HalfClose(); }
  // Ends the connection immediately.
  void Cancel() { stream_->Cancel(); }
  // Blocks until the connection has ended and no callback runs.
  void AwaitDone() { (void)stream_->AwaitDone(); }

  // Blocks until the coordinator admits this worker, which happens once all
  // servers have joined. Returns the connection's error if it ends first.
  absl::StatusOr<Admission> AwaitAdmission() ABSL_LOCKS_EXCLUDED(mu_);

  // Delivers orders, and the end of the connection, to `state` until Detach or
  // until a further Attach, which also passes on that the job is done if it is.
  // Attach must be called before Ready is sent.
  void Attach(WorkState* state) ABSL_LOCKS_EXCLUDED(mu_);
  void Detach() ABSL_LOCKS_EXCLUDED(mu_);
  // Blocks until Open arrives, which means that the servers have received the
  // model's layout. If this worker must initialize the weights,
  // WorkState::RequestInitialize has been called by then. Returns the
  // connection's error if it ends first.
  absl::StatusOr<Open> AwaitOpen() ABSL_LOCKS_EXCLUDED(mu_);

  // ---- Pipelines only.
  // Blocks until a Stage with a larger generation than `generation` has
  // arrived, and returns the newest one, which may contain no stages. Returns
  // JobDoneStatus() if the job finishes first, Cancelled if it is stopped, and
  // the connection's error if it ends.
  absl::StatusOr<Stage> AwaitStage(int64_t generation) ABSL_LOCKS_EXCLUDED(mu_);
  // Sets the callback that runs when a Stage with a larger generation than
  // `generation` arrives, and at once if one has arrived. It must not block; of
  // this object's methods, it may call only Send. Null removes the callback,
  // which no longer runs once SetStageOrdered has returned.
  void SetStageOrdered(int64_t generation, std::function<void()> ordered)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Sets the callback that receives the step of each StepComplete, after the
  // WorkState. The restrictions of SetStageOrdered apply.
  void SetStepComplete(std::function<void(int64_t step)> complete)
      ABSL_LOCKS_EXCLUDED(mu_);

  // ---- All-reduce only.
  // Blocks until this worker is a member of a group. Returns Aborted if a Stage
  // with a larger generation than `stage_generation` arrives first,
  // JobDoneStatus() if the job finishes without this worker, Cancelled if the
  // job is stopped, and the connection's error if it ends first.
  absl::StatusOr<Group> AwaitGroup(int64_t stage_generation = 0)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Blocks until a member of the all-reduce group, possibly this one, publishes
  // a value, such as its address, under `name`, and returns the value. Returns
  // Cancelled if the job is stopped, and the connection's error if it ends
  // first.
  absl::StatusOr<std::string> AwaitPublication(const std::string& name)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Sets the callback for Save orders; orders received earlier are delivered at
  // once. `save` must not block; of this object's methods, it may call only
  // Send. Null removes the callback, which no longer runs once SetSave has
  // returned.
  void SetSave(std::function<void(int64_t version)> save)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Sets the callback that receives each assignment before the WorkState does.
  // It must not block; of this object's methods, it may call only Send. Null
  // removes the callback, which no longer runs once SetDeal has returned.
  void SetDeal(std::function<void(const Deal&)> deal) ABSL_LOCKS_EXCLUDED(mu_);

  // Sets the callback for readings of the coordinator's clock, which answer the
  // ClockProbe reports. It must not block; of this object's methods, it may
  // call only Send. Null removes the callback, which no longer runs once
  // SetReading has returned.
  void SetReading(std::function<void(const ClockReading&)> reading)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Returns true if Admission has been received.
  bool admitted() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns true if Finished has been received with the field `stopped` set:
  // the job was stopped before its end.
  bool stopped() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns true if Finished has been received without the field `stopped`: the
  // job is done.
  bool finished() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the job's last version if Finished has asked this worker for its
  // untrained tensors, otherwise nullopt.
  std::optional<int64_t> untrained_due() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  bool OnMessage(const CoordinatorOrder& order, ReceivedPayload) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void OnGone(const absl::Status& status) override ABSL_LOCKS_EXCLUDED(mu_);

  std::unique_ptr<MembershipStream> stream_;
  std::string address_;
  mutable absl::Mutex mu_;
  WorkState* state_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::optional<Admission> admission_ ABSL_GUARDED_BY(mu_);
  std::optional<Open> open_ ABSL_GUARDED_BY(mu_);
  std::optional<Stage> stage_ ABSL_GUARDED_BY(mu_);  // The newest one.
  std::function<void()> stage_ordered_ ABSL_GUARDED_BY(mu_);
  std::function<void(int64_t)> step_complete_ ABSL_GUARDED_BY(mu_);
  std::optional<Group> group_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::string> published_ ABSL_GUARDED_BY(mu_);
  std::function<void(int64_t)> save_ ABSL_GUARDED_BY(mu_);
  std::function<void(const Deal&)> deal_ ABSL_GUARDED_BY(mu_);
  std::function<void(const ClockReading&)> reading_ ABSL_GUARDED_BY(mu_);
  // Versions of the Save orders received while save_ was null, which SetSave
  // delivers.
  std::vector<int64_t> saves_ ABSL_GUARDED_BY(mu_);
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  int64_t last_version_ ABSL_GUARDED_BY(mu_) = 0;     // Set with finished_.
  bool send_untrained_ ABSL_GUARDED_BY(mu_) = false;  // The same.
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  // OK while the connection exists, and an error once it has ended.
  absl::Status ended_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_PROCESS_MEMBERSHIP_CLIENT_H_

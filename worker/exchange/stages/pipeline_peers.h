// The transfers of a worker of a pipeline, as its newest assignment says.
#ifndef TRIBUTARY_WORKER_EXCHANGE_STAGES_PIPELINE_PEERS_H_
#define TRIBUTARY_WORKER_EXCHANGE_STAGES_PIPELINE_PEERS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "proto/pipeline.pb.h"
#include "worker/exchange/stages/stage_admission.h"
#include "worker/exchange/stages/stage_link.h"
#include "worker/exchange/stages/stage_links.h"
#include "worker/exchange/stages/stage_receiver.h"
#include "worker/exchange/stages/stage_transfers.h"
#include "worker/exchange/stages/transfer_inbox.h"
#include "worker/exchange/stages/transfer_plan.h"

namespace tributary {

// A worker of a pipeline, as an assignment (a Deal) describes it.
struct PipelinePeer {
  int64_t incarnation = 0;
  // The stages [stage_begin, stage_end) that it computes.
  int stage_begin = 0;
  int stage_end = 0;
  // host:port for workers on other hosts; host and Unix socket for workers on
  // its own.
  std::string address;
  std::string local_host;
  std::string local_address;
  // The secret that it shares with this worker. Empty for this worker itself.
  std::string secret;
};

// Implements StageTransfers with a TransferInbox and StageLinks, for one
// attempt. Connects to the workers that each assignment names when it first
// sends to them, and keeps connections over assignments.
//
// If a peer is lost, a new assignment follows: calls that need the peer block
// until it has begun, and then return Aborted. If none has begun after
// `patience`, they return Unavailable with the name of the peer.
//
// Thread-safe. Send, Receive, Flush and the destructor block.
class PipelinePeers final : public StageTransfers {
 public:
  // Opens a link to `peer`; see StageLinks::Opener. `hello` is what this worker
  // says of itself.
  using Opener = std::function<absl::StatusOr<std::unique_ptr<StageLink>>(
      const PipelinePeer& peer, const StageHello& hello,
      const std::function<bool()>& stop)>;
  struct Options {
    // Of this worker.
    StageAdmission::Job job;
    // How long a lost worker may take to be replaced, such as twice the lease.
    absl::Duration patience = absl::Seconds(60);
    Opener open;
  };

  // `plan` must outlive this object and the transfers that it returns.
  PipelinePeers(const TransferPlan* plan, Options options);
  // Returns what a StageHost serves, which must end before this object.
  StageReceiver::Worker receiver() { return {plan_, &inbox_, &admission_}; }

  // Begins the epoch of a new assignment, if `epoch` is larger than the newest.
  // It must be the same number for all workers of the pipeline. `peers` compute
  // all stages, and include this worker. Steps from `first_step` on are
  // computed, if necessary again.
  void BeginEpoch(int64_t epoch, int64_t first_step,
                  const std::vector<PipelinePeer>& peers)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Ends all steps up to and including `step`, until the next epoch. See
  // TransferInbox::EndStep.
  void EndStep(int64_t epoch, int64_t step) override ABSL_LOCKS_EXCLUDED(mu_);
  // Like EndStep of the newest epoch. BeginEpoch must not run at the same time.
  void EndStep(int64_t step) ABSL_LOCKS_EXCLUDED(mu_);
  // Makes all calls return `status`, which must be an error.
  void Fail(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);

  // Both wait until the epoch has begun. Besides the errors of StageTransfers,
  // they return Unavailable as above, the status of Fail, InvalidArgument for a
  // stage or a transfer that does not exist, and the reason if a peer refuses
  // this worker.
  absl::Status Send(int64_t epoch, int stage, const TransferKey& key,
                    const TransferScalars& scalars,
                    absl::Span<const absl::string_view> parts) override
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<ReceivedTransfer> Receive(int64_t epoch, int stage,
                                           const TransferKey& key) override
      ABSL_LOCKS_EXCLUDED(mu_);
  // Blocks until the receivers have released everything that was sent, or
  // returns an error. Call it before the destructor at the end of training.
  absl::Status Flush() { return links_.Flush(); }

 private:
  absl::StatusOr<std::unique_ptr<StageLink>> Open(
      int64_t to, int64_t epoch, const std::function<bool()>& stop)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until the epoch has begun, and returns the incarnation of the worker
  // that computes the stage.
  absl::StatusOr<int64_t> WorkerOf(int64_t epoch, int stage)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Returns what a call returns that has failed with `error`. Waits for a new
  // epoch if the error is the loss of a worker.
  absl::Status AwaitReplacement(int64_t epoch, const TransferKey& key,
                                absl::Status error) ABSL_LOCKS_EXCLUDED(mu_);

  const TransferPlan* const plan_;
  const Options options_;
  StageAdmission admission_;
  TransferInbox inbox_;
  StageLinks links_;

  mutable absl::Mutex mu_;
  int64_t epoch_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t ended_step_ ABSL_GUARDED_BY(mu_) = -1;
  absl::Status failed_ ABSL_GUARDED_BY(mu_);
  // Of the newest epoch: the workers, by their incarnations, and the
  // incarnation for each stage.
  std::map<int64_t, PipelinePeer> peers_ ABSL_GUARDED_BY(mu_);
  std::map<int, int64_t> workers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_STAGES_PIPELINE_PEERS_H_

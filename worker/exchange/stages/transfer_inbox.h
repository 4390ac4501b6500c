// The receiver's end of the transfers between the workers of a pipeline.
#ifndef TRIBUTARY_WORKER_EXCHANGE_STAGES_TRANSFER_INBOX_H_
#define TRIBUTARY_WORKER_EXCHANGE_STAGES_TRANSFER_INBOX_H_

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "worker/exchange/stages/transfer.h"

namespace tributary {

// Holds the transfers that have arrived at a worker from all of its senders
// until the worker asks for them. A worker has one inbox, whatever the
// transports of its senders.
//
// Workers are identified by their incarnations, and assignments of (stage,
// micro-batch) to workers by their epochs, which grow with every change. The
// inbox matches a transfer only if its epoch is the newest, and only with a
// request that names its sender. So a worker that was removed, or that follows
// an old assignment, has no influence. Transfers of a newer epoch, whose sender
// has learned of it first, are held until that epoch begins.
//
// A transfer that the worker has taken in an epoch is not needed again, because
// its bits would be the same: the inbox drops duplicates.
//
// The bound on held transfers is that of their senders' slots (see StageLink):
// the inbox never refuses one for lack of room.
//
// Thread-safe. Only Receive, ReceiveInto and AwaitReturn block.
class TransferInbox {
 public:
  TransferInbox() = default;
  TransferInbox(const TransferInbox&) = delete;
  TransferInbox& operator=(const TransferInbox&) = delete;

  // Blocks until the transfer `key` has arrived from the worker `from`, in this
  // epoch, and takes it. If the epoch has not begun, waits until it has.
  //
  // Returns Aborted if the epoch or the step is over, Unavailable if the
  // connection from the worker has ended in this epoch without the transfer
  // (a worker that has not connected yet is waited for), the status of Fail, or
  // FailedPrecondition if the transfer was already taken.
  absl::StatusOr<ReceivedTransfer> Receive(int64_t epoch, int64_t from,
                                           const TransferKey& key)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Call it after Receive has returned Unavailable. Waits until the worker has
  // connected again, or Receive would return another error. Returns false if
  // neither happens within `timeout`, or after Fail.
  bool AwaitReturn(int64_t epoch, int64_t from, const TransferKey& key,
                   absl::Duration timeout) const ABSL_LOCKS_EXCLUDED(mu_);
  // Like Receive, and copies the bytes to `parts`, one after the other. Returns
  // InvalidArgument if the sizes differ.
  absl::StatusOr<TransferScalars> ReceiveInto(
      int64_t epoch, int64_t from, const TransferKey& key,
      absl::Span<const absl::Span<char>> parts) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns true if Receive would return without blocking.
  bool ReadyForTest(int64_t epoch, int64_t from, const TransferKey& key) const
      ABSL_LOCKS_EXCLUDED(mu_);

  // Begins an epoch, if `epoch` is larger than the newest, in which the steps
  // from `first_step` on are computed, if necessary again. Drops held transfers
  // of older epochs, and makes Receive return Aborted for them. Forgets which
  // connections have ended: the workers of the new epoch may connect again.
  void BeginEpoch(int64_t epoch, int64_t first_step) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends all steps up to and including `step`, until the next epoch: drops the
  // transfers that nobody needs any more (see LastStepOf), those that arrive
  // later, too, and makes Receive return Aborted for them. No effect if an
  // epoch after `epoch` has begun, which may repeat the step.
  void EndStep(int64_t epoch, int64_t step) ABSL_LOCKS_EXCLUDED(mu_);
  // Makes Receive return `status`, which must be an error, and drops all
  // transfers. Only the first call has an effect.
  void Fail(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the newest epoch that has begun; 0 if none has.
  int64_t epoch() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the number of held transfers.
  int held() const ABSL_LOCKS_EXCLUDED(mu_);

  // For transports. Connect reports that the worker `from` has connected, and
  // returns a number for Disconnect, which reports that this connection has
  // ended: `status` is the reason, or OK if the worker has closed it. A worker
  // may connect again before its old connection has ended.
  int64_t Connect(int64_t from) ABSL_LOCKS_EXCLUDED(mu_);
  void Disconnect(int64_t from, int64_t connection, const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Adds a transfer, or drops it, which releases its owner. The transport has
  // verified the sender.
  void Deliver(int64_t from, int64_t epoch, const TransferKey& key,
               ReceivedTransfer transfer) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Address = std::pair<int64_t, TransferKey>;  // Sender and key.
  struct Held {
    int64_t epoch = 0;
    ReceivedTransfer transfer;
  };
  struct Connection {
    int64_t number = 0;
    bool ended = false;
    absl::Status status;
  };
  // Dropped transfers. Their owners must be released without the lock, because
  // that calls the transport.
  using Garbage = std::vector<ReceivedTransfer>;

  // Returns the held transfer that a request matches, or null.
  const Held* Find(int64_t epoch, int64_t from, const TransferKey& key) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the error of a request that no transfer can match any more, or OK.
  absl::Status Refusal(int64_t epoch, int64_t from,
                       const TransferKey& key) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns true if nobody will ask for the transfer.
  bool Useless(int64_t epoch, const TransferKey& key) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Moves the held transfers that are useless to `*garbage`.
  void DropUseless(Garbage* garbage) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  int64_t epoch_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t ended_step_ ABSL_GUARDED_BY(mu_) = -1;
  absl::Status failed_ ABSL_GUARDED_BY(mu_);
  std::map<Address, Held> held_ ABSL_GUARDED_BY(mu_);
  // Transfers of open steps that were taken in this epoch.
  std::set<TransferKey> taken_ ABSL_GUARDED_BY(mu_);
  // By sender; those that have ended only until the next epoch.
  std::map<int64_t, Connection> connections_ ABSL_GUARDED_BY(mu_);
  int64_t next_connection_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_STAGES_TRANSFER_INBOX_H_

// A receiver's account of the slots of one sender.
#ifndef TRIBUTARY_WORKER_EXCHANGE_STAGES_SLOT_RELEASES_H_
#define TRIBUTARY_WORKER_EXCHANGE_STAGES_SLOT_RELEASES_H_

#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/stream/message_stream.h"
#include "proto/pipeline.pb.h"
#include "worker/exchange/stages/transfer_plan.h"

namespace tributary {

// Knows which slots the sender's transfers occupy, and tells the sender when
// they are released. Shared by the receiver's end of the stream and by the
// transfers, which may outlive it. Thread-safe; never blocks.
class SlotReleases {
 public:
  // `plan` must outlive this object, `stream` until Detach has returned.
  SlotReleases(const TransferPlan* plan, ServerStream<StageReply>* stream);

  // Occupies a slot. Returns false if the slot is occupied already, which a
  // correct sender prevents, or does not exist.
  bool Occupy(int route, int slot) ABSL_LOCKS_EXCLUDED(mu_);
  // Frees an occupied slot, and makes the stream send a StageRelease.
  void Release(int route, int slot) ABSL_LOCKS_EXCLUDED(stream_mu_, mu_);
  // Writes the slots that were released since the last call to `*reply`.
  // Returns false if there are none.
  bool Take(StageReply* reply) ABSL_LOCKS_EXCLUDED(mu_);
  // Does not use the stream any more.
  void Detach() ABSL_LOCKS_EXCLUDED(stream_mu_);

 private:
  const TransferPlan* const plan_;
  // Held while the stream is called, which may call Take: acquired before mu_.
  absl::Mutex stream_mu_;
  ServerStream<StageReply>* stream_ ABSL_GUARDED_BY(stream_mu_);
  absl::Mutex mu_;
  // By TransferPlan::SlotNumber.
  std::vector<bool> occupied_ ABSL_GUARDED_BY(mu_);
  // Routes and slots.
  std::vector<std::pair<int, int>> released_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_STAGES_SLOT_RELEASES_H_

// One step of an all-reduce. Internal to AllReduceExchange.
#ifndef TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_ALL_REDUCE_STEP_H_
#define TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_ALL_REDUCE_STEP_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/buffer_pool.h"
#include "common/numerics/loss_sum.h"
#include "common/update/aggregation/chunk_aggregator.h"
#include "worker/exchange/all_reduce/all_reduce_exchange.h"
#include "worker/exchange/all_reduce/chunk_routes.h"
#include "worker/exchange/all_reduce/member_optimizer.h"

namespace tributary {

// The kinds of messages between members. The comment of a kind states the
// message's contents.
enum class AllReduceKind : uint64_t {
  // The gradient sum of one node of the reduction tree for one chunk, sent to
  // the member that reduces the chunk.
  kGradient,
  // The gradient sum of a chunk over all members or, with shard_optimizer, the
  // chunk's new weights.
  kReduced,
  kShare,  // A MemberShare.
  kLoss,   // LossSum: loss of a node, sent to member 0.
  // The MemberOptimizer::SquareSum of each chunk that the sender reduces.
  kSquareSums,
};

// Returns the tag of a message. The tag contains the step number modulo 4,
// which is sufficient because only consecutive steps overlap.
inline uint64_t AllReduceTag(AllReduceKind kind, int64_t step, int chunk,
                             int node) {
  return static_cast<uint64_t>(kind) << 56 |
         static_cast<uint64_t>(step % 4) << 52 |
         static_cast<uint64_t>(node) << 32 | static_cast<uint64_t>(chunk);
}

// Returns the result of `work`, or ResourceExhausted if it throws
// std::bad_alloc.
template <typename Work>
absl::Status WithinMemory(const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        "there is not enough memory for the sums of an all-reduce");
  }
}

// Runs one step of the all-reduce: receives and adds gradients, and updates
// weights. Used by the exchange's thread only.
class AllReduceStep {
 public:
  AllReduceStep(AllReduceExchange* exchange, int64_t number)
      : exchange_(*exchange),
        routes_(exchange->routes_),
        number_(number),
        saves_(exchange->BeginStep(number)),
        rank_(exchange->mesh_->rank()),
        size_(exchange->mesh_->size()) {}

  // Runs the step to completion. After an error the mesh is unusable.
  absl::Status Run();

 private:
  using SquareSum = MemberOptimizer::SquareSum;
  using Transfer = AllReduceExchange::Transfer;

  // A gradient sum that this member receives for a chunk that it reduces.
  struct Part {
    int node = 0;
    Buffer sum;
    Transfer transfer;
  };
  // A chunk that a different member reduces and then sends to this member.
  struct Gathered {
    float* weights = nullptr;  // Destination of the next version.
    Buffer sum;                // Null with shard_optimizer.
    Transfer transfer;
  };

  absl::Status Work();
  // Posts all receives that do not depend on this member's own computation.
  void ReceiveParts();
  // Waits until the trainer has begun the step. The next version may be written
  // only then, because until then the trainer may still read the memory that
  // this version overwrites. Returns Aborted if the exchange is ending.
  absl::Status AwaitBegin();
  absl::Status ReceiveReduced();
  absl::Status Reduce(int chunk);
  absl::Status Gather(int chunk);
  // Waits for the gradient sums of all members for the chunk, and adds them in
  // the order of the reduction tree; see MemberOptimizer::AddUp.
  absl::StatusOr<TreeSum> AwaitGradient(int chunk);
  absl::Status AwaitShares();
  // Waits for the sums of squares of this member's chunks, and sends them.
  absl::Status SendSquareSums();
  // Sends the reduced chunk to all other members.
  void SendReduced(int chunk, const float* values,
                   const std::shared_ptr<Event>& ready);
  // Computes the next version of the chunks in `gradients` and passes it to the
  // trainer. Sends and saves the chunks that this member reduces, if the job
  // requires that.
  absl::Status Update(
      const std::vector<std::pair<int, const TreeSum*>>& gradients);
  // Traces the update of a chunk that this member reduces.
  void Trace(int chunk, absl::Time begin) const;
  // Passes a copy of the chunk and its optimizer state to Options::save.
  absl::Status Save(int chunk, const float* weights);
  // Appends the chunk and the event `ready` to writes_, then calls EndWrites.
  // `ready` is reached when the chunk's new weights are complete. If it is
  // null, they are already complete.
  absl::Status EndWrite(int chunk, std::shared_ptr<Event> ready);
  // Makes the new weights of the chunks in writes_ available to the trainer, in
  // order, up to the first chunk whose event has not been reached. With `wait`,
  // waits for each event, and so includes all chunks.
  absl::Status EndWrites(bool wait);
  // Waits for the sums of squares of all members, computes the norm of the
  // step's whole gradient, and then updates all chunks. Used if updates wait
  // for the norm.
  absl::Status UpdateGated();
  absl::Status Report();
  absl::Status AwaitSends();
  static absl::Status Await(std::vector<Transfer>* transfers);

  // Returns true if another member sends this one the chunk.
  bool Gathers(int chunk) const {
    return routes_.OwnerOf(chunk) != rank_ && routes_.Reads(rank_, chunk);
  }
  int64_t BytesOfSquareSums(int member) const {
    return static_cast<int64_t>(square_sums_[member].size() *
                                sizeof(SquareSum));
  }
  const SquareSum& SquareSumOf(int chunk) const {
    return square_sums_[routes_.OwnerOf(chunk)][routes_.PlaceOf(chunk)];
  }
  int64_t Count(int chunk) const { return exchange_.layout_->ChunkSize(chunk); }
  int64_t Bytes(int chunk) const {
    return Count(chunk) * int64_t{sizeof(float)};
  }
  const float* Weights(int chunk) const {
    return exchange_.sink_->Weights(number_) +
           exchange_.layout_->ChunkBegin(chunk);
  }

  AllReduceExchange& exchange_;
  const ChunkRoutes& routes_;
  const int64_t number_;
  const bool saves_;
  const int rank_;
  const int size_;

  std::map<int, std::vector<Part>> parts_;  // Indexed by chunk.
  std::map<int, Gathered> gathered_;        // Indexed by chunk.
  std::vector<Transfer> sends_;

  std::vector<MemberShare> shares_;  // Indexed by member.
  std::vector<Transfer> share_transfers_;
  int64_t sample_count_ = -1;  // Sum over all members; -1 if not known yet.
  std::optional<double> learning_rate_;  // That the members have stated.
  // Sums of the losses, by node of the reduction tree. Filled by member 0 only.
  std::map<int, LossSum> losses_;
  std::vector<Transfer> loss_transfers_;
  // Indexed by member: the sums of squares of the chunks that the member
  // reduces, in ascending order of chunks.
  std::vector<std::vector<SquareSum>> square_sums_;
  std::vector<Transfer> square_sum_transfers_;
  double norm_ = 0;
  // Chunks whose new weights have not been passed to the trainer yet, in order,
  // each with the event that is reached when its weights are complete (null:
  // they are complete).
  std::deque<std::pair<int, std::shared_ptr<Event>>> writes_;
  // Gradient sums over all members, by chunk. Used only if updates wait for the
  // norm of the whole gradient.
  std::map<int, TreeSum> reduced_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_ALL_REDUCE_STEP_H_

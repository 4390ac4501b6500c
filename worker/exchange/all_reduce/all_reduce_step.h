// One step of an all-reduce: what AllReduceExchange is made of, and of no use
// to others.
#ifndef TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_ALL_REDUCE_STEP_H_
#define TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_ALL_REDUCE_STEP_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/buffer_pool.h"
#include "worker/exchange/all_reduce/all_reduce_exchange.h"
#include "worker/exchange/all_reduce/chunk_updater.h"

namespace tributary {

// What members send each other.
enum class AllReduceKind : uint64_t {
  kGradient,     // A node's sum of a chunk, to whoever reduces that.
  kReduced,      // The sum of all, or the new weights.
  kSampleCount,  // int64: samples in a member's part of the batch.
  kLoss,         // double, by node: to member 0.
  kFacts,        // AllReduceExchange::Step::Facts of the chunks that a member
                 // reduces.
};

// Steps overlap by one at most.
inline uint64_t AllReduceTag(AllReduceKind kind, int64_t step, int chunk,
                             int node) {
  return static_cast<uint64_t>(kind) << 56 |
         static_cast<uint64_t>(step % 4) << 52 |
         static_cast<uint64_t>(node) << 32 | static_cast<uint64_t>(chunk);
}

// In the exchange's thread.
class AllReduceExchange::Step {
 public:
  Step(AllReduceExchange* exchange, int64_t number)
      : exchange_(*exchange),
        number_(number),
        saves_(exchange->BeginStep(number)),
        rank_(exchange->mesh_->rank()),
        size_(exchange->mesh_->size()) {}

  // After an error the mesh is of no use any more.
  absl::Status Run();

 private:
  // What the reducing member knows of a chunk's gradient.
  struct Facts {
    double squares = 0;
    int64_t nonfinite = -1;  // Its first element that is; -1: none.
  };
  // A sum that another member sends, for a chunk that is reduced here.
  struct Part {
    int node = 0;
    Buffer sum;
    Transfer transfer;
  };
  // A chunk that another member reduces.
  struct Gathered {
    float* weights = nullptr;  // Where the next version goes.
    Buffer sum;                // Null with shard_optimizer.
    Transfer transfer;
  };

  absl::Status Work();
  // Asks for all that does not depend on this member's own work.
  void ReceiveParts();
  // Waits until the trainer takes the step: it reads no memory any more that
  // the next version's weights go to.
  absl::Status AwaitBegin();
  absl::Status ReceiveReduced();
  absl::Status Reduce(int chunk);
  absl::Status Gather(int chunk);
  // Waits for the chunk's sums of all members.
  absl::StatusOr<ChunkGradient> AwaitGradient(int chunk);
  absl::Status AwaitSampleCount();
  // The facts of the chunks that this member reduces, to whoever needs them.
  void SendFacts();
  // To everybody.
  void SendReduced(int chunk, const float* values);
  // Makes the next version of a chunk.
  absl::Status Update(int chunk, const ChunkGradient& gradient, float* to);
  absl::Status UpdateReduced(int chunk, const ChunkGradient& gradient);
  // The chunk's new state, of which `weights` are a part.
  void Save(int chunk, const float* weights);
  // The same for all chunks, when the norm is known.
  absl::Status UpdateGated();
  absl::Status Report();
  absl::Status AwaitSends();
  static absl::Status Await(std::vector<Transfer>* transfers);

  int64_t BytesOfFacts(int member) const {
    return static_cast<int64_t>(facts_[member].size() * sizeof(Facts));
  }
  const Facts& FactsOf(int chunk) const {
    return facts_[exchange_.OwnerOf(chunk)][chunk / size_];
  }
  int64_t Count(int chunk) const { return exchange_.layout_->ChunkSize(chunk); }
  int64_t Bytes(int chunk) const {
    return Count(chunk) * int64_t{sizeof(float)};
  }
  const float* Weights(int chunk) const {
    return exchange_.state_->Weights(number_) +
           exchange_.layout_->ChunkBegin(chunk);
  }

  AllReduceExchange& exchange_;
  const int64_t number_;
  const bool saves_;
  const int rank_;
  const int size_;

  std::map<int, std::vector<Part>> parts_;  // By chunk.
  std::map<int, Gathered> gathered_;        // By chunk.
  std::vector<Transfer> sends_;

  std::vector<int64_t> sample_counts_;  // By member.
  std::vector<Transfer> sample_count_transfers_;
  int64_t sample_count_ = -1;  // Of all; -1: not known yet.
  // Member 0's, by node.
  std::map<int, double> losses_;
  std::vector<Transfer> loss_transfers_;
  // By member: of the chunks that it reduces, ascending.
  std::vector<std::vector<Facts>> facts_;
  std::vector<Transfer> fact_transfers_;
  double norm_ = 0;
  std::map<int, ChunkGradient> reduced_;  // Where updates wait for the norm.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_ALL_REDUCE_ALL_REDUCE_STEP_H_

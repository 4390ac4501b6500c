#include "worker/exchange/all_reduce/all_reduce_step.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/base/failpoint.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/numerics/vector_ops.h"

namespace tributary {
namespace {

// Delay between reducing chunks and waiting for chunks that others reduce, in
// chunks per member. It prevents members from waiting for one another in a
// cycle.
constexpr int kLag = 2;

// Adds up the parts below `node` in place. Returns the location of the sum.
float* AddUp(int node, int64_t count, const std::map<int, float*>& parts) {
  const auto found = parts.find(node);
  if (found != parts.end()) return found->second;
  float* const left = AddUp(2 * node, count, parts);
  AddInto(AddUp(2 * node + 1, count, parts), left, count);
  return left;
}

double AddUpLosses(int node, const std::map<int, double>& parts) {
  const auto found = parts.find(node);
  if (found != parts.end()) return found->second;
  return AddUpLosses(2 * node, parts) + AddUpLosses(2 * node + 1, parts);
}

// Returns the two operands of the root's sum. The caller performs the last
// addition.
ChunkGradient Halves(int64_t count, const std::map<int, float*>& parts) {
  if (parts.count(1) > 0) return {parts.at(1), nullptr};
  return {AddUp(2, count, parts), AddUp(3, count, parts)};
}

int64_t FirstNonfinite(const ChunkGradient& gradient, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float other =
        gradient.other_half == nullptr ? 0 : gradient.other_half[i];
    if (!std::isfinite(gradient.half[i] + other)) return i;
  }
  return 0;  // All elements are finite; only the sum of squares overflows.
}

}  // namespace

absl::Status AllReduceExchange::Step::Run() {
  const absl::Status status = Work();
  // Abort first: no transfer may write to memory that is released now.
  if (!status.ok()) exchange_.mesh_->Abort();
  return status;
}

absl::Status AllReduceExchange::Step::Work() {
  ReceiveParts();
  TRIBUTARY_RETURN_IF_ERROR(AwaitBegin());
  TRIBUTARY_RETURN_IF_ERROR(ReceiveReduced());
  const int chunks = exchange_.layout_->chunk_count();
  const int lag = kLag * size_;
  for (int chunk = chunks - 1; chunk >= -lag; --chunk) {
    if (chunk >= 0 && exchange_.OwnerOf(chunk) == rank_) {
      TRIBUTARY_RETURN_IF_ERROR(Reduce(chunk));
    }
    const int gathered = chunk + lag;
    if (gathered < chunks && exchange_.OwnerOf(gathered) != rank_) {
      TRIBUTARY_RETURN_IF_ERROR(Gather(gathered));
    }
  }
  if (exchange_.gated_) TRIBUTARY_RETURN_IF_ERROR(UpdateGated());
  // A member that updates no chunk has not waited for the counts yet.
  TRIBUTARY_RETURN_IF_ERROR(AwaitSampleCount());
  TRIBUTARY_RETURN_IF_ERROR(Report());
  return AwaitSends();
}

void AllReduceExchange::Step::ReceiveParts() {
  const ArenaLayout& layout = *exchange_.layout_;
  sample_counts_.resize(size_);
  facts_.resize(size_);
  for (int member = 0; member < size_; ++member) {
    facts_[member].resize(layout.ChunksOf(member, size_).size());
    if (member == rank_) continue;
    sample_count_transfers_.push_back(exchange_.Receive(
        member, AllReduceTag(AllReduceKind::kSampleCount, number_, 0, 0),
        &sample_counts_[member], sizeof(sample_counts_[member])));
    if (rank_ == 0 || exchange_.gated_) {
      fact_transfers_.push_back(exchange_.Receive(
          member, AllReduceTag(AllReduceKind::kFacts, number_, 0, 0),
          facts_[member].data(), BytesOfFacts(member)));
    }
    for (const int node : exchange_.nodes_[member]) {
      if (rank_ == 0) {
        double* const loss = &losses_[node];
        loss_transfers_.push_back(exchange_.Receive(
            member, AllReduceTag(AllReduceKind::kLoss, number_, 0, node), loss,
            sizeof(*loss)));
      }
      for (const int chunk : layout.ChunksOf(rank_, size_)) {
        Part part;
        part.node = node;
        part.sum = exchange_.sums_.Take();
        part.transfer = exchange_.Receive(
            member,
            AllReduceTag(AllReduceKind::kGradient, number_, chunk, node),
            part.sum.get(), Bytes(chunk));
        parts_[chunk].push_back(std::move(part));
      }
    }
  }
}

absl::Status AllReduceExchange::Step::AwaitBegin() {
  const auto begun = [this]() ABSL_SHARED_LOCKS_REQUIRED(exchange_.mu_) {
    return exchange_.own_.count(number_) > 0 || exchange_.ending_;
  };
  absl::MutexLock lock(&exchange_.mu_);
  tributary::Await(&exchange_.mu_, absl::Condition(&begun));
  if (exchange_.ending_) {
    return absl::AbortedError("the all-reduce was cancelled");
  }
  return absl::OkStatus();
}

absl::Status AllReduceExchange::Step::ReceiveReduced() {
  for (int chunk = exchange_.layout_->chunk_count() - 1; chunk >= 0; --chunk) {
    if (exchange_.OwnerOf(chunk) == rank_) continue;
    Gathered& gathered = gathered_[chunk];
    TRIBUTARY_ASSIGN_OR_RETURN(gathered.weights,
                               exchange_.BeginWrite(number_, chunk));
    float* to = gathered.weights;
    if (!exchange_.sharded_) {
      gathered.sum = exchange_.sums_.Take();
      to = gathered.sum.get();
    }
    gathered.transfer = exchange_.Receive(
        exchange_.OwnerOf(chunk),
        AllReduceTag(AllReduceKind::kReduced, number_, chunk, 0), to,
        Bytes(chunk));
  }
  return absl::OkStatus();
}

absl::StatusOr<ChunkGradient> AllReduceExchange::Step::AwaitGradient(
    int chunk) {
  std::map<int, float*> parts;
  for (Part& part : parts_[chunk]) {
    TRIBUTARY_RETURN_IF_ERROR(part.transfer->Wait());
    parts[part.node] = part.sum.get();
  }
  const size_t nodes = exchange_.nodes_[rank_].size();
  absl::MutexLock lock(&exchange_.mu_);
  const std::map<int, NodeChunk>& own = exchange_.own_[number_].chunks[chunk];
  const auto there = [&]() ABSL_SHARED_LOCKS_REQUIRED(exchange_.mu_) {
    return own.size() == nodes || exchange_.ending_;
  };
  tributary::Await(&exchange_.mu_, absl::Condition(&there));
  if (exchange_.ending_) {
    return absl::AbortedError("the all-reduce was cancelled");
  }
  for (const auto& [node, sum] : own) {
    parts[node] = sum.arena.get() + exchange_.layout_->ChunkBegin(chunk);
  }
  return Halves(Count(chunk), parts);
}

absl::Status AllReduceExchange::Step::AwaitSampleCount() {
  if (sample_count_ >= 0) return absl::OkStatus();
  TRIBUTARY_RETURN_IF_ERROR(Await(&sample_count_transfers_));
  {
    // All own nodes are counted: AwaitGradient has seen all of them or, in a
    // member without chunks, the owners have reduced every chunk from them.
    absl::MutexLock lock(&exchange_.mu_);
    sample_counts_[rank_] = exchange_.own_[number_].sample_count;
  }
  sample_count_ =
      std::accumulate(sample_counts_.begin(), sample_counts_.end(), int64_t{0});
  return absl::OkStatus();
}

absl::Status AllReduceExchange::Step::Update(int chunk,
                                             const ChunkGradient& gradient,
                                             float* to) {
  TRIBUTARY_RETURN_IF_ERROR(AwaitSampleCount());
  exchange_.optimizer_->Update(chunk, gradient, {number_, sample_count_, norm_},
                               Weights(chunk), to);
  return absl::OkStatus();
}

absl::Status AllReduceExchange::Step::Reduce(int chunk) {
  TRIBUTARY_ASSIGN_OR_RETURN(ChunkGradient gradient, AwaitGradient(chunk));
  // The others receive the sum as one buffer.
  if (!exchange_.sharded_ && gradient.other_half != nullptr) {
    AddInto(gradient.other_half, const_cast<float*>(gradient.half),
            Count(chunk));
    gradient.other_half = nullptr;
  }
  Facts& facts = facts_[rank_][chunk / size_];
  facts.squares = exchange_.optimizer_->SumOfSquares(chunk, gradient);
  if (!std::isfinite(facts.squares)) {
    facts.nonfinite = FirstNonfinite(gradient, Count(chunk));
  }
  if (!exchange_.sharded_) SendReduced(chunk, gradient.half);
  if (exchange_.gated_) {
    reduced_[chunk] = gradient;
    return absl::OkStatus();
  }
  return UpdateReduced(chunk, gradient);
}

absl::Status AllReduceExchange::Step::UpdateReduced(
    int chunk, const ChunkGradient& gradient) {
  TRIBUTARY_ASSIGN_OR_RETURN(float* const to,
                             exchange_.BeginWrite(number_, chunk));
  TRIBUTARY_RETURN_IF_ERROR(Update(chunk, gradient, to));
  LedgerEntry(exchange_.options_.attempt, chunk, number_, sample_count_);
  if (exchange_.sharded_) SendReduced(chunk, to);
  if (saves_) Save(chunk, to);
  exchange_.EndWrite(number_, chunk);
  return absl::OkStatus();
}

void AllReduceExchange::Step::Save(int chunk, const float* weights) {
  const std::vector<Buffer>& slots = exchange_.optimizer_->slots(chunk);
  Snapshot copy =
      MakeSnapshot(*exchange_.layout_, {chunk}, static_cast<int>(slots.size()));
  std::copy_n(weights, Count(chunk), copy.chunks[0].values.get());
  for (size_t i = 0; i < slots.size(); ++i) {
    std::copy_n(slots[i].get(), Count(chunk), copy.chunks[0].slots[i].get());
  }
  exchange_.options_.save(number_ + 1, copy.chunks[0]);
}

void AllReduceExchange::Step::SendReduced(int chunk, const float* values) {
  for (int member = 0; member < size_; ++member) {
    if (member == rank_) continue;
    sends_.push_back(exchange_.Send(
        member, AllReduceTag(AllReduceKind::kReduced, number_, chunk, 0),
        values, Bytes(chunk)));
  }
}

absl::Status AllReduceExchange::Step::Gather(int chunk) {
  // If updates wait for the norm, the owner sends the new weights after it.
  if (exchange_.gated_ && exchange_.sharded_) return absl::OkStatus();
  Gathered& gathered = gathered_[chunk];
  TRIBUTARY_RETURN_IF_ERROR(gathered.transfer->Wait());
  if (exchange_.gated_) {
    reduced_[chunk] = {gathered.sum.get(), nullptr};
    return absl::OkStatus();
  }
  if (!exchange_.sharded_) {
    TRIBUTARY_RETURN_IF_ERROR(
        Update(chunk, {gathered.sum.get(), nullptr}, gathered.weights));
  }
  exchange_.EndWrite(number_, chunk);
  return absl::OkStatus();
}

void AllReduceExchange::Step::SendFacts() {
  for (int member = 0; member < (exchange_.gated_ ? size_ : 1); ++member) {
    if (member == rank_) continue;
    sends_.push_back(exchange_.Send(
        member, AllReduceTag(AllReduceKind::kFacts, number_, 0, 0),
        facts_[rank_].data(), BytesOfFacts(rank_)));
  }
}

absl::Status AllReduceExchange::Step::UpdateGated() {
  SendFacts();
  TRIBUTARY_RETURN_IF_ERROR(Await(&fact_transfers_));
  TRIBUTARY_RETURN_IF_ERROR(AwaitSampleCount());
  double squares = 0;
  for (int chunk = 0; chunk < exchange_.layout_->chunk_count(); ++chunk) {
    squares += FactsOf(chunk).squares;
  }
  norm_ = std::sqrt(squares) /
          static_cast<double>(std::max<int64_t>(sample_count_, 1));
  // Ascending order: the next forward pass starts with the first layers.
  for (const auto& [chunk, gradient] : reduced_) {
    const auto gathered = gathered_.find(chunk);
    if (gathered == gathered_.end()) {
      TRIBUTARY_RETURN_IF_ERROR(UpdateReduced(chunk, gradient));
    } else {
      TRIBUTARY_RETURN_IF_ERROR(
          Update(chunk, gradient, gathered->second.weights));
      exchange_.EndWrite(number_, chunk);
    }
  }
  if (!exchange_.sharded_) return absl::OkStatus();
  for (auto& [chunk, gathered] : gathered_) {
    TRIBUTARY_RETURN_IF_ERROR(gathered.transfer->Wait());
    exchange_.EndWrite(number_, chunk);
  }
  return absl::OkStatus();
}

absl::Status AllReduceExchange::Step::Report() {
  if (!exchange_.gated_) SendFacts();
  if (rank_ != 0) return absl::OkStatus();
  if (!exchange_.gated_) TRIBUTARY_RETURN_IF_ERROR(Await(&fact_transfers_));
  TRIBUTARY_RETURN_IF_ERROR(Await(&loss_transfers_));
  {
    absl::MutexLock lock(&exchange_.mu_);
    const Own& own = exchange_.own_[number_];
    losses_.insert(own.losses.begin(), own.losses.end());
  }
  StepSums sums;
  sums.set_step(number_);
  sums.set_weight(sample_count_);
  sums.set_loss_sum(AddUpLosses(/*node=*/1, losses_));
  for (int chunk = 0; chunk < exchange_.layout_->chunk_count(); ++chunk) {
    const Facts& facts = FactsOf(chunk);
    sums.add_sum_of_squares(facts.squares);
    if (facts.nonfinite < 0) continue;
    StepSums::Nonfinite* const nonfinite = sums.add_nonfinite();
    nonfinite->set_chunk(chunk);
    nonfinite->set_element(facts.nonfinite);
  }
  if (exchange_.options_.on_sums) exchange_.options_.on_sums(sums);
  return absl::OkStatus();
}

absl::Status AllReduceExchange::Step::AwaitSends() {
  TRIBUTARY_RETURN_IF_ERROR(Await(&sends_));
  {
    absl::MutexLock lock(&exchange_.mu_);
    Own& pushed = exchange_.own_[number_];
    const auto all = [&]() ABSL_SHARED_LOCKS_REQUIRED(exchange_.mu_) {
      return pushed.pushing == 0 || exchange_.ending_;
    };
    tributary::Await(&exchange_.mu_, absl::Condition(&all));
    if (exchange_.ending_) {
      return absl::AbortedError("the all-reduce was cancelled");
    }
    // If one of them fails, Run must call Abort before it destroys the others.
    sends_ = std::move(pushed.sends);
  }
  TRIBUTARY_RETURN_IF_ERROR(Await(&sends_));
  absl::MutexLock lock(&exchange_.mu_);
  exchange_.own_.erase(number_);
  return absl::OkStatus();
}

absl::Status AllReduceExchange::Step::Await(std::vector<Transfer>* transfers) {
  for (Transfer& transfer : *transfers) {
    TRIBUTARY_RETURN_IF_ERROR(transfer->Wait());
  }
  return absl::OkStatus();
}

}  // namespace tributary

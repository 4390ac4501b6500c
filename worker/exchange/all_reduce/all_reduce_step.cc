#include "worker/exchange/all_reduce/all_reduce_step.h"

#include <optional>
#include <utility>

#include "common/base/failpoint.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/optimizer/stated_rates.h"
#include "common/parameters/gradient_squares.h"

namespace tributary {
namespace {

// Delay between reducing chunks and waiting for chunks that others reduce, in
// chunks per member. It prevents members from waiting for one another in a
// cycle.
constexpr int kLag = 2;

// Returns the contribution of a node of the reduction tree to one chunk: the
// chunk's elements begin at `values`, in the memory of `owner`.
NodeSum PartAt(int node, float* values, const Buffer& owner) {
  NodeSum part;
  part.node = node;
  part.gradient = std::make_shared<GradientInMemory>(MemoryView{values, owner});
  return part;
}

// Returns a chunk's gradient that consists of one array.
TreeSum SumAt(const Buffer& values) {
  return TreeSum::Of(PartAt(/*node=*/1, values.get(), values).gradient);
}

// Returns the learning rate that members state; nullopt if none does.
absl::StatusOr<std::optional<double>> CommonRate(
    int64_t step, const std::vector<MemberShare>& shares) {
  StatedRates rates;
  for (const MemberShare& share : shares) {
    if (share.learning_rate < 0) continue;
    TRIBUTARY_RETURN_IF_ERROR(rates.Add(step, share.learning_rate));
  }
  return rates.Of(step);
}

}  // namespace

absl::Status AllReduceStep::Run() {
  const absl::Status status = WithinMemory([this] { return Work(); });
  // Abort first: no transfer may write to memory that is released now.
  if (!status.ok()) exchange_.mesh_->Abort();
  return status;
}

absl::Status AllReduceStep::Work() {
  ReceiveParts();
  TRIBUTARY_RETURN_IF_ERROR(AwaitBegin());
  TRIBUTARY_RETURN_IF_ERROR(ReceiveReduced());
  const int chunks = exchange_.layout_->chunk_count();
  const int lag = kLag * size_;
  for (int chunk = chunks - 1; chunk >= -lag; --chunk) {
    if (chunk >= 0 && routes_.OwnerOf(chunk) == rank_) {
      TRIBUTARY_RETURN_IF_ERROR(Reduce(chunk));
    }
    const int gathered = chunk + lag;
    if (gathered < chunks && Gathers(gathered)) {
      TRIBUTARY_RETURN_IF_ERROR(Gather(gathered));
    }
  }
  if (exchange_.gated_) TRIBUTARY_RETURN_IF_ERROR(UpdateGated());
  TRIBUTARY_RETURN_IF_ERROR(EndWrites(/*wait=*/true));
  // A member that updates no chunk has not waited for the counts yet.
  TRIBUTARY_RETURN_IF_ERROR(AwaitShares());
  TRIBUTARY_RETURN_IF_ERROR(Report());
  return AwaitSends();
}

void AllReduceStep::ReceiveParts() {
  shares_.resize(size_);
  square_sums_.resize(size_);
  for (int member = 0; member < size_; ++member) {
    square_sums_[member].resize(routes_.OwnedBy(member).size());
    if (member == rank_) continue;
    if (routes_.IsSource(member, rank_)) {
      share_transfers_.push_back(exchange_.Receive(
          member, AllReduceTag(AllReduceKind::kShare, number_, 0, 0),
          &shares_[member], sizeof(shares_[member])));
    }
    if (rank_ == 0 || exchange_.gated_) {
      square_sum_transfers_.push_back(exchange_.Receive(
          member, AllReduceTag(AllReduceKind::kSquareSums, number_, 0, 0),
          square_sums_[member].data(), BytesOfSquareSums(member)));
    }
    for (const int node : routes_.NodesOf(member)) {
      if (rank_ == 0 && routes_.Contributes(member, /*chunk=*/0)) {
        LossSum* const loss = &losses_[node];
        loss_transfers_.push_back(exchange_.Receive(
            member, AllReduceTag(AllReduceKind::kLoss, number_, 0, node), loss,
            sizeof(*loss)));
      }
      for (const int chunk : routes_.OwnedBy(rank_)) {
        if (!routes_.Contributes(member, chunk)) continue;
        Part part;
        part.node = node;
        part.sum = exchange_.sums_.Take();
        part.transfer = exchange_.ReceiveChunk(
            member,
            AllReduceTag(AllReduceKind::kGradient, number_, chunk, node),
            part.sum.get(), Bytes(chunk));
        parts_[chunk].push_back(std::move(part));
      }
    }
  }
}

absl::Status AllReduceStep::AwaitBegin() {
  const auto begun = [this]() ABSL_SHARED_LOCKS_REQUIRED(exchange_.mu_) {
    return exchange_.own_.count(number_) > 0 || exchange_.ending_ ||
           exchange_.finishing_;
  };
  absl::MutexLock lock(&exchange_.mu_);
  tributary::Await(&exchange_.mu_, absl::Condition(&begun));
  if (exchange_.ending_ || exchange_.own_.count(number_) == 0) {
    return absl::AbortedError("the all-reduce was cancelled");
  }
  return absl::OkStatus();
}

absl::Status AllReduceStep::ReceiveReduced() {
  for (int chunk = exchange_.layout_->chunk_count() - 1; chunk >= 0; --chunk) {
    if (!Gathers(chunk)) continue;
    Gathered& gathered = gathered_[chunk];
    TRIBUTARY_ASSIGN_OR_RETURN(gathered.weights,
                               exchange_.BeginWrite(number_, chunk));
    float* to = gathered.weights;
    if (!exchange_.sharded_) {
      gathered.sum = exchange_.sums_.Take();
      to = gathered.sum.get();
    }
    gathered.transfer = exchange_.ReceiveChunk(
        routes_.OwnerOf(chunk),
        AllReduceTag(AllReduceKind::kReduced, number_, chunk, 0), to,
        Bytes(chunk));
  }
  return absl::OkStatus();
}

absl::StatusOr<TreeSum> AllReduceStep::AwaitGradient(int chunk) {
  ChunkAggregator parts(exchange_.tree_leaves_, ExchangeSpec::FLOAT32);
  for (Part& part : parts_[chunk]) {
    TRIBUTARY_RETURN_IF_ERROR(part.transfer->Wait());
    parts.Add(PartAt(part.node, part.sum.get(), part.sum));
  }
  const size_t nodes = routes_.NodesOf(rank_).size();
  {
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
      parts.Add(PartAt(node,
                       sum.arena.get() + exchange_.layout_->ChunkBegin(chunk),
                       sum.arena));
    }
  }
  // The others receive the sum as one buffer. A gated update reads it twice.
  return exchange_.optimizer_->AddUp(
      parts.Take(), Count(chunk),
      /*whole=*/!exchange_.sharded_ || exchange_.gated_);
}

absl::Status AllReduceStep::AwaitShares() {
  if (sample_count_ >= 0) return absl::OkStatus();
  TRIBUTARY_RETURN_IF_ERROR(Await(&share_transfers_));
  if (routes_.IsSource(rank_, rank_)) {
    // A chunk that this member only reads may be reduced before its own nodes
    // are counted.
    absl::MutexLock lock(&exchange_.mu_);
    const AllReduceExchange::Own& own = exchange_.own_[number_];
    const size_t nodes = routes_.NodesOf(rank_).size();
    const auto counted = [&]() ABSL_SHARED_LOCKS_REQUIRED(exchange_.mu_) {
      return own.sample_counts.size() == nodes || exchange_.ending_;
    };
    tributary::Await(&exchange_.mu_, absl::Condition(&counted));
    if (exchange_.ending_) {
      return absl::AbortedError("the all-reduce was cancelled");
    }
    shares_[rank_] = own.share;
  }
  sample_count_ = 0;
  for (const MemberShare& share : shares_) sample_count_ += share.sample_count;
  TRIBUTARY_ASSIGN_OR_RETURN(learning_rate_, CommonRate(number_, shares_));
  return absl::OkStatus();
}

absl::Status AllReduceStep::Reduce(int chunk) {
  TRIBUTARY_ASSIGN_OR_RETURN(TreeSum gradient, AwaitGradient(chunk));
  exchange_.optimizer_->BeginSquareSum(chunk, gradient);
  if (!exchange_.sharded_) {
    SendReduced(chunk, MemberOptimizer::Whole(gradient),
                exchange_.optimizer_->Record());
  }
  if (exchange_.gated_) {
    reduced_[chunk] = std::move(gradient);
    return absl::OkStatus();
  }
  return Update({{chunk, &gradient}});
}

absl::Status AllReduceStep::Update(
    const std::vector<std::pair<int, const TreeSum*>>& gradients) {
  TRIBUTARY_RETURN_IF_ERROR(AwaitShares());
  const absl::Time begin = MonotonicNow();
  std::vector<MemberOptimizer::WeightsUpdate> updates;
  for (const auto& [chunk, gradient] : gradients) {
    const auto gathered = gathered_.find(chunk);
    float* to = nullptr;
    if (gathered != gathered_.end()) {
      to = gathered->second.weights;
    } else {
      TRIBUTARY_ASSIGN_OR_RETURN(to, exchange_.BeginWrite(number_, chunk));
    }
    updates.push_back({chunk, gradient, Weights(chunk), to});
  }
  TRIBUTARY_RETURN_IF_ERROR(exchange_.optimizer_->Update(
      {number_, sample_count_, norm_, learning_rate_}, updates));
  const std::shared_ptr<Event> updated = exchange_.optimizer_->Record();
  for (const MemberOptimizer::WeightsUpdate& update : updates) {
    const int chunk = update.chunk;
    if (routes_.OwnerOf(chunk) == rank_) {
      Trace(chunk, begin);
      LedgerEntry(exchange_.options_.attempt, chunk, number_, sample_count_);
      if (exchange_.sharded_) SendReduced(chunk, update.new_weights, updated);
      if (saves_) TRIBUTARY_RETURN_IF_ERROR(Save(chunk, update.new_weights));
    }
    TRIBUTARY_RETURN_IF_ERROR(EndWrite(chunk, updated));
  }
  return absl::OkStatus();
}

void AllReduceStep::Trace(int chunk, absl::Time begin) const {
  if (exchange_.trace_ == nullptr) return;
  ExchangeTrace::Route route;
  for (const int member : routes_.ContributorsOf(chunk)) {
    const std::vector<int>& nodes = routes_.NodesOf(member);
    route.nodes.insert(route.nodes.end(), nodes.begin(), nodes.end());
  }
  for (int member = 0; member < size_; ++member) {
    if (member != rank_ && routes_.Reads(member, chunk)) {
      route.receivers.push_back(member);
    }
  }
  exchange_.trace_->Updated(number_, chunk, route, begin);
}

absl::Status AllReduceStep::EndWrite(int chunk, std::shared_ptr<Event> ready) {
  writes_.emplace_back(chunk, std::move(ready));
  return EndWrites(/*wait=*/false);
}

absl::Status AllReduceStep::EndWrites(bool wait) {
  while (!writes_.empty()) {
    const auto& [chunk, ready] = writes_.front();
    if (ready != nullptr && wait) {
      TRIBUTARY_RETURN_IF_ERROR(ready->Wait());
    } else if (ready != nullptr) {
      TRIBUTARY_ASSIGN_OR_RETURN(const bool done, ready->Done());
      if (!done) return absl::OkStatus();
    }
    exchange_.EndWrite(number_, chunk);
    writes_.pop_front();
  }
  return absl::OkStatus();
}

absl::Status AllReduceStep::Save(int chunk, const float* weights) {
  const Snapshot copy =
      MakeSnapshot(*exchange_.layout_, {chunk}, exchange_.optimizer_->slots());
  TRIBUTARY_RETURN_IF_ERROR(
      exchange_.optimizer_->CopyState(weights, copy.chunks[0]));
  exchange_.options_.save(number_ + 1, copy.chunks[0]);
  return absl::OkStatus();
}

void AllReduceStep::SendReduced(int chunk, const float* values,
                                const std::shared_ptr<Event>& ready) {
  for (int member = 0; member < size_; ++member) {
    if (member == rank_ || !routes_.Reads(member, chunk)) continue;
    sends_.push_back(exchange_.SendChunk(
        member, AllReduceTag(AllReduceKind::kReduced, number_, chunk, 0),
        values, Bytes(chunk), ready));
  }
}

absl::Status AllReduceStep::Gather(int chunk) {
  // If updates wait for the norm, the owner sends the new weights after it.
  if (exchange_.gated_ && exchange_.sharded_) return absl::OkStatus();
  Gathered& gathered = gathered_[chunk];
  TRIBUTARY_RETURN_IF_ERROR(gathered.transfer->Wait());
  if (exchange_.gated_) {
    reduced_[chunk] = SumAt(gathered.sum);
    return absl::OkStatus();
  }
  if (!exchange_.sharded_) {
    const TreeSum sum = SumAt(gathered.sum);
    return Update({{chunk, &sum}});
  }
  return EndWrite(chunk, /*ready=*/nullptr);
}

absl::Status AllReduceStep::SendSquareSums() {
  TRIBUTARY_ASSIGN_OR_RETURN(const auto sums,
                             exchange_.optimizer_->EndSquareSums());
  for (const auto& [chunk, sum] : sums) {
    square_sums_[rank_][routes_.PlaceOf(chunk)] = sum;
  }
  for (int member = 0; member < (exchange_.gated_ ? size_ : 1); ++member) {
    if (member == rank_) continue;
    sends_.push_back(exchange_.Send(
        member, AllReduceTag(AllReduceKind::kSquareSums, number_, 0, 0),
        square_sums_[rank_].data(), BytesOfSquareSums(rank_)));
  }
  return absl::OkStatus();
}

absl::Status AllReduceStep::UpdateGated() {
  TRIBUTARY_RETURN_IF_ERROR(SendSquareSums());
  TRIBUTARY_RETURN_IF_ERROR(Await(&square_sum_transfers_));
  TRIBUTARY_RETURN_IF_ERROR(AwaitShares());
  double squares = 0;
  for (int chunk = 0; chunk < exchange_.layout_->chunk_count(); ++chunk) {
    squares += SquareSumOf(chunk).value;
  }
  norm_ = MeanGradientNorm(squares, sample_count_);
  // Ascending order: the next forward pass starts with the first layers.
  const size_t most = exchange_.optimizer_->chunks_per_update();
  std::vector<std::pair<int, const TreeSum*>> group;
  for (const auto& [chunk, gradient] : reduced_) {
    group.emplace_back(chunk, &gradient);
    if (group.size() < most) continue;
    TRIBUTARY_RETURN_IF_ERROR(Update(std::exchange(group, {})));
  }
  if (!group.empty()) TRIBUTARY_RETURN_IF_ERROR(Update(group));
  TRIBUTARY_RETURN_IF_ERROR(EndWrites(/*wait=*/true));
  if (!exchange_.sharded_) return absl::OkStatus();
  for (auto& [chunk, gathered] : gathered_) {
    TRIBUTARY_RETURN_IF_ERROR(gathered.transfer->Wait());
    exchange_.EndWrite(number_, chunk);
  }
  return absl::OkStatus();
}

absl::Status AllReduceStep::Report() {
  if (!exchange_.gated_) TRIBUTARY_RETURN_IF_ERROR(SendSquareSums());
  if (rank_ != 0) return absl::OkStatus();
  if (!exchange_.gated_) {
    TRIBUTARY_RETURN_IF_ERROR(Await(&square_sum_transfers_));
  }
  TRIBUTARY_RETURN_IF_ERROR(Await(&loss_transfers_));
  {
    absl::MutexLock lock(&exchange_.mu_);
    const AllReduceExchange::Own& own = exchange_.own_[number_];
    losses_.insert(own.losses.begin(), own.losses.end());
  }
  StepSums sums;
  sums.set_step(number_);
  sums.set_weight(sample_count_);
  if (learning_rate_.has_value()) sums.set_learning_rate(*learning_rate_);
  ChunkAggregator losses(exchange_.tree_leaves_, ExchangeSpec::FLOAT32);
  for (const auto& [node, loss] : losses_) {
    NodeSum part;
    part.node = node;
    part.loss_sum = loss;
    losses.Add(std::move(part));
  }
  const std::optional<double> loss_sum = losses.Take().loss_sum().value();
  if (loss_sum.has_value()) sums.set_loss_sum(*loss_sum);
  for (int chunk = 0; chunk < exchange_.layout_->chunk_count(); ++chunk) {
    const SquareSum& squares = SquareSumOf(chunk);
    sums.add_sum_of_squares(squares.value);
    if (squares.nonfinite < 0) continue;
    StepSums::Nonfinite* const nonfinite = sums.add_nonfinite();
    nonfinite->set_chunk(chunk);
    nonfinite->set_element(squares.nonfinite);
  }
  if (exchange_.options_.on_sums) exchange_.options_.on_sums(sums);
  return absl::OkStatus();
}

absl::Status AllReduceStep::AwaitSends() {
  TRIBUTARY_RETURN_IF_ERROR(Await(&sends_));
  {
    absl::MutexLock lock(&exchange_.mu_);
    AllReduceExchange::Own& pushed = exchange_.own_[number_];
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

absl::Status AllReduceStep::Await(std::vector<Transfer>* transfers) {
  for (Transfer& transfer : *transfers) {
    TRIBUTARY_RETURN_IF_ERROR(transfer->Wait());
  }
  return absl::OkStatus();
}

}  // namespace tributary

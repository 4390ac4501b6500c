#include "worker/exchange/all_reduce_exchange.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/monotonic_clock.h"
#include "common/rounds.h"
#include "common/status_macros.h"
#include "common/vector_ops.h"

namespace tributary {
namespace {

// What is waited for of others comes this much later than what is reduced here,
// in chunks of each member: nobody waits for somebody who waits in turn.
constexpr int kLag = 2;

enum class Kind : uint64_t {
  kGradient,  // A node's sum of a chunk, to whoever reduces that.
  kReduced,   // The sum of all, or the new weights.
  kWeight,    // int64: samples in a member's part of the batch.
  kLoss,      // double, by node: to member 0.
  kFacts,     // Step::Facts of the chunks that a member reduces.
};

// Steps overlap by one at most.
uint64_t Tag(Kind kind, int64_t step, int chunk, int node) {
  return static_cast<uint64_t>(kind) << 56 |
         static_cast<uint64_t>(step % 4) << 52 |
         static_cast<uint64_t>(node) << 32 | static_cast<uint64_t>(chunk);
}

// Adds up what is below `node`, in place; its sum is where it returns.
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

// The root, but for the last addition, which is left to the reader.
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
  return 0;  // Only the squares are too large.
}

std::vector<int> AllChunks(const ArenaLayout& layout) {
  std::vector<int> chunks(layout.chunk_count());
  std::iota(chunks.begin(), chunks.end(), 0);
  return chunks;
}

}  // namespace

// One step, in the exchange's thread.
class AllReduceExchange::Step {
 public:
  Step(AllReduceExchange* exchange, int64_t number)
      : exchange_(*exchange),
        number_(number),
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
  absl::Status AwaitWeight();
  // The facts of the chunks that this member reduces, to whoever needs them.
  void SendFacts();
  // To everybody.
  void SendReduced(int chunk, const float* values);
  // Makes the next version of a chunk.
  absl::Status Update(int chunk, const ChunkGradient& gradient, float* to);
  absl::Status UpdateReduced(int chunk, const ChunkGradient& gradient);
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
  const int rank_;
  const int size_;

  std::map<int, std::vector<Part>> parts_;  // By chunk.
  std::map<int, Gathered> gathered_;        // By chunk.
  std::vector<Transfer> sends_;

  std::vector<int64_t> weights_;  // By member.
  std::vector<Transfer> weight_transfers_;
  int64_t weight_ = -1;  // Of all; -1: not known yet.
  // Member 0's, by node.
  std::map<int, double> losses_;
  std::vector<Transfer> loss_transfers_;
  // By member: of the chunks that it reduces, ascending.
  std::vector<std::vector<Facts>> facts_;
  std::vector<Transfer> fact_transfers_;
  double norm_ = 0;
  std::map<int, ChunkGradient> reduced_;  // Where updates wait for the norm.
};

absl::StatusOr<std::unique_ptr<AllReduceExchange>> AllReduceExchange::Create(
    const Options& options, const ArenaLayout* layout, WorkState* state,
    std::unique_ptr<PeerMesh> mesh) {
  const int leaves = static_cast<int>(options.job.batch().micro_batches());
  int covered = 0;
  for (const LeafRange& range : options.leaves) {
    if (range.begin != covered || range.end <= range.begin) covered = -1;
    if (covered < 0) break;
    covered = range.end;
  }
  if (covered != leaves ||
      static_cast<int>(options.leaves.size()) != mesh->size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", leaves, " leaves are not dealt over the ",
                     mesh->size(), " members of the all-reduce"));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::unique_ptr<ChunkUpdater> updater,
      ChunkUpdater::Create(options.job, options.steps, layout,
                           options.shard_optimizer
                               ? layout->ChunksOf(mesh->rank(), mesh->size())
                               : AllChunks(*layout)));
  auto exchange = std::unique_ptr<AllReduceExchange>(new AllReduceExchange(
      options, layout, state, std::move(mesh), std::move(updater)));
  exchange->thread_ = std::thread([e = exchange.get()] { e->RunSteps(); });
  return exchange;
}

AllReduceExchange::AllReduceExchange(const Options& options,
                                     const ArenaLayout* layout,
                                     WorkState* state,
                                     std::unique_ptr<PeerMesh> mesh,
                                     std::unique_ptr<ChunkUpdater> updater)
    : options_(options),
      layout_(layout),
      state_(state),
      mesh_(std::move(mesh)),
      updater_(std::move(updater)),
      tree_leaves_(static_cast<int>(options.job.batch().micro_batches())),
      gated_(AwaitsNorm(options.job)),
      arenas_(layout->arena_elements()),
      sums_(layout->chunk_elements()),
      latency_(layout->chunk_count()) {
  for (const LeafRange& range : options.leaves) {
    nodes_.push_back(MaximalSubtrees(range, tree_leaves_));
  }
}

AllReduceExchange::~AllReduceExchange() {
  {
    absl::MutexLock lock(&mu_);
    ending_ = true;
  }
  mesh_->Abort();
  if (thread_.joinable()) thread_.join();
}

AllReduceExchange::Transfer AllReduceExchange::Send(int to, uint64_t tag,
                                                    const void* data,
                                                    int64_t bytes) {
  bytes_sent_ += bytes;
  return mesh_->Send(to, tag, data, bytes);
}

AllReduceExchange::Transfer AllReduceExchange::Receive(int from, uint64_t tag,
                                                       void* data,
                                                       int64_t bytes) {
  bytes_received_ += bytes;
  return mesh_->Receive(from, tag, data, bytes);
}

void AllReduceExchange::PushInitial(Buffer arena) {
  for (int chunk = 0; chunk < layout_->chunk_count(); ++chunk) {
    float* to = nullptr;
    if (state_->BeginWrite(chunk, /*version=*/0, &to) !=
        WorkState::Arrival::kWrite) {
      continue;
    }
    std::copy_n(arena.get() + layout_->ChunkBegin(chunk),
                layout_->ChunkSize(chunk), to);
    state_->EndWrite(chunk, /*version=*/0);
  }
}

void AllReduceExchange::Push(int64_t step, NodeChunk sum) {
  latency_.Pushed(step, sum.chunk, MonotonicNow());
  const int rank = mesh_->rank();
  const int owner = OwnerOf(sum.chunk);
  absl::MutexLock lock(&mu_);
  Own& own = own_[step];
  if (owner != rank) {
    own.sends.push_back(
        Send(owner, Tag(Kind::kGradient, step, sum.chunk, sum.node),
             sum.arena.get() + layout_->ChunkBegin(sum.chunk),
             layout_->ChunkSize(sum.chunk) * int64_t{sizeof(float)}));
  }
  if (own.weights.emplace(sum.node, sum.weight).second) {
    own.weight += sum.weight;
    if (own.weights.size() == nodes_[rank].size()) {
      for (int member = 0; member < mesh_->size(); ++member) {
        if (member == rank) continue;
        own.sends.push_back(Send(member, Tag(Kind::kWeight, step, 0, 0),
                                 &own.weight, sizeof(own.weight)));
      }
    }
  }
  if (sum.chunk == 0) {
    const auto loss = own.losses.emplace(sum.node, sum.loss_sum).first;
    if (rank != 0) {
      own.sends.push_back(Send(0, Tag(Kind::kLoss, step, 0, sum.node),
                               &loss->second, sizeof(loss->second)));
    }
  }
  own.chunks[sum.chunk].emplace(sum.node, std::move(sum));
}

void AllReduceExchange::Finish() {
  const auto done = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return done_; };
  absl::MutexLock lock(&mu_, absl::Condition(&done));
}

absl::StatusOr<float*> AllReduceExchange::BeginWrite(int64_t step, int chunk) {
  float* to = nullptr;
  if (state_->BeginWrite(chunk, step + 1, &to) == WorkState::Arrival::kWrite) {
    return to;
  }
  return absl::InternalError(absl::StrCat("there is no place for version ",
                                          step + 1, " of chunk ", chunk));
}

void AllReduceExchange::EndWrite(int64_t step, int chunk) {
  state_->EndWrite(chunk, step + 1);
  latency_.Arrived(chunk, MonotonicNow());
}

void AllReduceExchange::RunSteps() {
  absl::Status status;
  for (int64_t step = options_.first_step; status.ok() && step < options_.steps;
       ++step) {
    status = Step(this, step).Run();
  }
  absl::MutexLock lock(&mu_);
  if (!status.ok() && !ending_) state_->Fail(status);
  done_ = true;
}

absl::Status AllReduceExchange::Step::Run() {
  const absl::Status status = Work();
  // Nothing may come in any more to memory that is given back now.
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
  TRIBUTARY_RETURN_IF_ERROR(Report());
  return AwaitSends();
}

void AllReduceExchange::Step::ReceiveParts() {
  const ArenaLayout& layout = *exchange_.layout_;
  weights_.resize(size_);
  facts_.resize(size_);
  for (int member = 0; member < size_; ++member) {
    facts_[member].resize(layout.ChunksOf(member, size_).size());
    if (member == rank_) continue;
    weight_transfers_.push_back(
        exchange_.Receive(member, Tag(Kind::kWeight, number_, 0, 0),
                          &weights_[member], sizeof(weights_[member])));
    if (rank_ == 0 || exchange_.gated_) {
      fact_transfers_.push_back(
          exchange_.Receive(member, Tag(Kind::kFacts, number_, 0, 0),
                            facts_[member].data(), BytesOfFacts(member)));
    }
    for (const int node : exchange_.nodes_[member]) {
      if (rank_ == 0) {
        double* const loss = &losses_[node];
        loss_transfers_.push_back(exchange_.Receive(
            member, Tag(Kind::kLoss, number_, 0, node), loss, sizeof(*loss)));
      }
      for (const int chunk : layout.ChunksOf(rank_, size_)) {
        Part part;
        part.node = node;
        part.sum = exchange_.sums_.Take();
        part.transfer = exchange_.Receive(
            member, Tag(Kind::kGradient, number_, chunk, node), part.sum.get(),
            Bytes(chunk));
        parts_[chunk].push_back(std::move(part));
      }
    }
  }
}

absl::Status AllReduceExchange::Step::AwaitBegin() {
  const auto begun = [this]() ABSL_SHARED_LOCKS_REQUIRED(exchange_.mu_) {
    return exchange_.own_.count(number_) > 0 || exchange_.ending_;
  };
  absl::MutexLock lock(&exchange_.mu_, absl::Condition(&begun));
  if (exchange_.ending_) return absl::AbortedError("called off");
  return absl::OkStatus();
}

absl::Status AllReduceExchange::Step::ReceiveReduced() {
  for (int chunk = exchange_.layout_->chunk_count() - 1; chunk >= 0; --chunk) {
    if (exchange_.OwnerOf(chunk) == rank_) continue;
    Gathered& gathered = gathered_[chunk];
    TRIBUTARY_ASSIGN_OR_RETURN(gathered.weights,
                               exchange_.BeginWrite(number_, chunk));
    float* to = gathered.weights;
    if (!exchange_.options_.shard_optimizer) {
      gathered.sum = exchange_.sums_.Take();
      to = gathered.sum.get();
    }
    gathered.transfer = exchange_.Receive(
        exchange_.OwnerOf(chunk), Tag(Kind::kReduced, number_, chunk, 0), to,
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
  exchange_.mu_.Await(absl::Condition(&there));
  if (exchange_.ending_) return absl::AbortedError("called off");
  for (const auto& [node, sum] : own) {
    parts[node] = sum.arena.get() + exchange_.layout_->ChunkBegin(chunk);
  }
  return Halves(Count(chunk), parts);
}

absl::Status AllReduceExchange::Step::AwaitWeight() {
  if (weight_ >= 0) return absl::OkStatus();
  TRIBUTARY_RETURN_IF_ERROR(Await(&weight_transfers_));
  {
    // A whole chunk of its own was there, so all of its nodes are counted.
    absl::MutexLock lock(&exchange_.mu_);
    weights_[rank_] = exchange_.own_[number_].weight;
  }
  weight_ = std::accumulate(weights_.begin(), weights_.end(), int64_t{0});
  return absl::OkStatus();
}

absl::Status AllReduceExchange::Step::Update(int chunk,
                                             const ChunkGradient& gradient,
                                             float* to) {
  TRIBUTARY_RETURN_IF_ERROR(AwaitWeight());
  exchange_.updater_->Update(chunk, gradient, {number_, weight_, norm_},
                             Weights(chunk), to);
  return absl::OkStatus();
}

absl::Status AllReduceExchange::Step::Reduce(int chunk) {
  TRIBUTARY_ASSIGN_OR_RETURN(ChunkGradient gradient, AwaitGradient(chunk));
  // The others get the sum in one piece.
  if (!exchange_.options_.shard_optimizer && gradient.other_half != nullptr) {
    AddInto(gradient.other_half, const_cast<float*>(gradient.half),
            Count(chunk));
    gradient.other_half = nullptr;
  }
  Facts& facts = facts_[rank_][chunk / size_];
  facts.squares = exchange_.updater_->SumOfSquares(chunk, gradient);
  if (!std::isfinite(facts.squares)) {
    facts.nonfinite = FirstNonfinite(gradient, Count(chunk));
  }
  if (!exchange_.options_.shard_optimizer) SendReduced(chunk, gradient.half);
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
  if (exchange_.options_.shard_optimizer) SendReduced(chunk, to);
  exchange_.EndWrite(number_, chunk);
  return absl::OkStatus();
}

void AllReduceExchange::Step::SendReduced(int chunk, const float* values) {
  for (int member = 0; member < size_; ++member) {
    if (member == rank_) continue;
    sends_.push_back(exchange_.Send(
        member, Tag(Kind::kReduced, number_, chunk, 0), values, Bytes(chunk)));
  }
}

absl::Status AllReduceExchange::Step::Gather(int chunk) {
  const bool sharded = exchange_.options_.shard_optimizer;
  // With both, the owner waits for the norm.
  if (exchange_.gated_ && sharded) return absl::OkStatus();
  Gathered& gathered = gathered_[chunk];
  TRIBUTARY_RETURN_IF_ERROR(gathered.transfer->Wait());
  if (exchange_.gated_) {
    reduced_[chunk] = {gathered.sum.get(), nullptr};
    return absl::OkStatus();
  }
  if (!sharded) {
    TRIBUTARY_RETURN_IF_ERROR(
        Update(chunk, {gathered.sum.get(), nullptr}, gathered.weights));
  }
  exchange_.EndWrite(number_, chunk);
  return absl::OkStatus();
}

void AllReduceExchange::Step::SendFacts() {
  for (int member = 0; member < (exchange_.gated_ ? size_ : 1); ++member) {
    if (member == rank_) continue;
    sends_.push_back(exchange_.Send(member, Tag(Kind::kFacts, number_, 0, 0),
                                    facts_[rank_].data(), BytesOfFacts(rank_)));
  }
}

absl::Status AllReduceExchange::Step::UpdateGated() {
  SendFacts();
  TRIBUTARY_RETURN_IF_ERROR(Await(&fact_transfers_));
  TRIBUTARY_RETURN_IF_ERROR(AwaitWeight());
  double squares = 0;
  for (int chunk = 0; chunk < exchange_.layout_->chunk_count(); ++chunk) {
    squares += FactsOf(chunk).squares;
  }
  norm_ =
      std::sqrt(squares) / static_cast<double>(std::max<int64_t>(weight_, 1));
  // The next forward begins with the first layers.
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
  if (!exchange_.options_.shard_optimizer) return absl::OkStatus();
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
  TRIBUTARY_RETURN_IF_ERROR(AwaitWeight());
  {
    absl::MutexLock lock(&exchange_.mu_);
    const Own& own = exchange_.own_[number_];
    losses_.insert(own.losses.begin(), own.losses.end());
  }
  StepSums sums;
  sums.set_step(number_);
  sums.set_weight(weight_);
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
  // Others will need the next step to go on, which needs this lock.
  std::vector<Transfer> own;
  {
    absl::MutexLock lock(&exchange_.mu_);
    own = std::move(exchange_.own_[number_].sends);
  }
  TRIBUTARY_RETURN_IF_ERROR(Await(&own));
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

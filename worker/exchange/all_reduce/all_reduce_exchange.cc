#include "worker/exchange/all_reduce/all_reduce_exchange.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "common/optimizer/optimizer.h"
#include "common/text/counted.h"
#include "worker/exchange/all_reduce/all_reduce_step.h"
#include "worker/exchange/all_reduce/device_optimizer.h"
#include "worker/exchange/all_reduce/host_optimizer.h"
#include "worker/exchange/all_reduce/program_optimizer.h"

namespace tributary {
namespace {

bool ShardsOptimizer(const JobSpec& job) {
  return ResolveExchange(job).workers_shard_optimizer;
}

// Returns the chunks that a member updates.
std::vector<int> ChunksToUpdate(const JobSpec& job, const ChunkRoutes& routes,
                                int member) {
  return ShardsOptimizer(job) ? routes.OwnedBy(member) : routes.ReadBy(member);
}

// Returns the routes of an exchange with `members` members.
absl::StatusOr<ChunkRoutes> RoutesOf(const AllReduceExchange::Options& options,
                                     const ArenaLayout& layout, int members) {
  const size_t assigned = options.assignments.size();
  if (static_cast<int>(assigned) != members ||
      (!options.chunks.empty() && options.chunks.size() != assigned)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the assignments of ", Counted(assigned, "member"),
        " are not those of an all-reduce of ", Counted(members, "member")));
  }
  return ChunkRoutes::Create(
      layout.chunk_count(),
      static_cast<int>(options.job.batch().micro_batches()),
      options.assignments, options.chunks);
}

// Returns the function that allocates buffers of `elements` floats for a pool.
std::function<Buffer()> Allocator(int64_t elements, ReductionStream* device,
                                  const PinMemory& pin) {
  if (device != nullptr) {
    return [elements, device] { return device->Allocate(elements); };
  }
  return [elements, pin] {
    return PinnedBuffer(AllocateBuffer(elements), elements * sizeof(float),
                        pin);
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<AllReduceExchange>> AllReduceExchange::Create(
    const Options& options, const ArenaLayout* layout, WeightsSink* sink,
    std::unique_ptr<PeerMesh> mesh) {
  TRIBUTARY_ASSIGN_OR_RETURN(ChunkRoutes routes,
                             RoutesOf(options, *layout, mesh->size()));
  auto exchange = std::unique_ptr<AllReduceExchange>(new AllReduceExchange(
      options, std::move(routes), layout, sink, std::move(mesh),
      /*device_mesh=*/nullptr, /*device=*/nullptr));
  TRIBUTARY_RETURN_IF_ERROR(exchange->Start());
  return exchange;
}

absl::StatusOr<std::unique_ptr<AllReduceExchange>>
AllReduceExchange::CreateOnDevice(const Options& options,
                                  const ArenaLayout* layout, WeightsSink* sink,
                                  std::unique_ptr<DeviceMesh> mesh,
                                  std::unique_ptr<ReductionStream> stream) {
  TRIBUTARY_ASSIGN_OR_RETURN(ChunkRoutes routes,
                             RoutesOf(options, *layout, mesh->size()));
  DeviceMesh* const device_mesh = mesh.get();
  auto exchange = std::unique_ptr<AllReduceExchange>(
      new AllReduceExchange(options, std::move(routes), layout, sink,
                            std::move(mesh), device_mesh, std::move(stream)));
  const absl::Status placed = WithinMemory([&]() -> absl::Status {
    TRIBUTARY_RETURN_IF_ERROR(exchange->MoveWeights());
    exchange->Reserve();
    return absl::OkStatus();
  });
  if (absl::IsResourceExhausted(placed)) {
    return absl::ResourceExhaustedError(
        "this worker's GPU has not enough memory for the weights and the sums "
        "of an all-reduce: use shard_optimizer, or more workers, or set "
        "exchange.all_reduce.backend to GLOO");
  }
  TRIBUTARY_RETURN_IF_ERROR(placed);
  TRIBUTARY_RETURN_IF_ERROR(exchange->Start());
  return exchange;
}

absl::StatusOr<ReductionStream::Plan> AllReduceExchange::PlanFor(
    const JobSpec& job, const ArenaLayout* layout, int rank, int size) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<Optimizer> optimizer,
                             Optimizer::Create(job.optimizer()));
  ReductionStream::Plan plan;
  plan.layout = layout;
  plan.chunks = layout->ChunksOf(ShardsOptimizer(job) ? rank : 0,
                                 ShardsOptimizer(job) ? size : 1);
  plan.slots = optimizer->slots();
  return plan;
}

absl::Status AllReduceExchange::Start() {
  if (options_.job.optimizer().has_program() != (options_.rule != nullptr)) {
    return absl::InvalidArgumentError(
        "a job has optimizer.program if and only if workers have a rule");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer,
                             Optimizer::Create(options_.job.optimizer()));
  if (options_.rule != nullptr) {
    optimizer_ = std::make_unique<ProgramOptimizer>(
        options_.job, options_.steps, layout_, std::move(optimizer),
        options_.rule);
  } else if (device_ != nullptr) {
    optimizer_ =
        std::make_unique<DeviceOptimizer>(options_.job, options_.steps, layout_,
                                          std::move(optimizer), device_.get());
  } else {
    optimizer_ = std::make_unique<HostOptimizer>(
        options_.job, options_.steps, layout_, std::move(optimizer),
        ChunksToUpdate(options_.job, routes_, mesh_->rank()));
  }
  for (const Snapshot::Chunk& chunk : options_.first.chunks) {
    optimizer_->Restore(chunk);
  }
  thread_ = Thread([this] { RunSteps(); });
  return absl::OkStatus();
}

absl::Status AllReduceExchange::MoveWeights() {
  Buffer arenas[2];
  for (Buffer& arena : arenas) {
    arena = device_->Allocate(layout_->arena_elements());
  }
  device_->CopyIn(sink_->Weights(options_.first_step),
                  layout_->arena_elements(),
                  arenas[options_.first_step % 2].get());
  TRIBUTARY_RETURN_IF_ERROR(device_->Synchronize());
  return sink_->SetArenas(arenas[0], arenas[1]);
}

void AllReduceExchange::Reserve() {
  const int rank = mesh_->rank();
  const size_t own = routes_.OwnedBy(rank).size();
  size_t sums = sharded_ ? 0 : routes_.ReadBy(rank).size() - own;
  for (const int chunk : routes_.OwnedBy(rank)) {
    for (const int member : routes_.ContributorsOf(chunk)) {
      if (member != rank) sums += routes_.NodesOf(member).size();
    }
  }
  std::vector<Buffer> taken;  // They return to their pools.
  for (size_t i = 0; i < sums; ++i) taken.push_back(sums_.Take());
  for (int i = 0; i < options_.arenas; ++i) taken.push_back(arenas_.Take());
}

AllReduceExchange::AllReduceExchange(const Options& options, ChunkRoutes routes,
                                     const ArenaLayout* layout,
                                     WeightsSink* sink,
                                     std::unique_ptr<PeerMesh> mesh,
                                     DeviceMesh* device_mesh,
                                     std::unique_ptr<ReductionStream> device)
    : Exchange(options.job, layout),
      options_(options),
      routes_(std::move(routes)),
      layout_(layout),
      sink_(sink),
      device_(std::move(device)),
      mesh_(std::move(mesh)),
      device_mesh_(device_mesh),
      tree_leaves_(static_cast<int>(options.job.batch().micro_batches())),
      gated_(ResolveExchange(options.job).updates_await_norm),
      sharded_(ShardsOptimizer(options.job)),
      arenas_(layout->arena_elements(),
              Allocator(layout->arena_elements(), device_.get(), options.pin)),
      sums_(layout->chunk_elements(),
            Allocator(layout->chunk_elements(), device_.get(),
                      /*pin=*/nullptr)),
      latency_(layout->chunk_count()),
      trace_(options.trace == nullptr ? nullptr
                                      : std::make_unique<ExchangeTrace>(
                                            options.trace, mesh_->rank())),
      next_step_(options.first_step) {}

AllReduceExchange::~AllReduceExchange() {
  {
    absl::MutexLock lock(&mu_);
    ending_ = true;
  }
  mesh_->Abort();
  if (thread_.joinable()) thread_.Join();
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

AllReduceExchange::Transfer AllReduceExchange::SendChunk(
    int to, uint64_t tag, const float* values, int64_t bytes,
    std::shared_ptr<Event> ready) {
  if (device_mesh_ == nullptr) return Send(to, tag, values, bytes);
  bytes_sent_ += bytes;
  return device_mesh_->SendFromDevice(to, tag, values, bytes, std::move(ready));
}

AllReduceExchange::Transfer AllReduceExchange::ReceiveChunk(int from,
                                                            uint64_t tag,
                                                            float* values,
                                                            int64_t bytes) {
  if (device_mesh_ == nullptr) return Receive(from, tag, values, bytes);
  bytes_received_ += bytes;
  return device_mesh_->ReceiveOnDevice(from, tag, values, bytes);
}

void AllReduceExchange::CopyWeights(const float* from, int64_t count,
                                    float* to) {
  if (device_ == nullptr) {
    std::copy_n(from, count, to);
    return;
  }
  device_->Copy(from, count, to);
  device_->Synchronize().IgnoreError();  // The first step returns the error.
}

void AllReduceExchange::PushInitial(Buffer arena) {
  for (const int chunk : routes_.ReadBy(mesh_->rank())) {
    float* to = nullptr;
    if (sink_->BeginWrite(chunk, /*version=*/0, &to) !=
        WeightsSink::Arrival::kWrite) {
      continue;
    }
    CopyWeights(arena.get() + layout_->ChunkBegin(chunk),
                layout_->ChunkSize(chunk), to);
    sink_->EndWrite(chunk, /*version=*/0);
  }
}

void AllReduceExchange::OnBegin(int64_t step) {
  if (routes_.ContributesAny(mesh_->rank())) return;
  absl::MutexLock lock(&mu_);
  own_[step];
}

void AllReduceExchange::Push(int64_t step, NodeChunk sum) {
  const absl::Time begin = MonotonicNow();
  latency_.Pushed(step, sum.chunk, begin);
  const int node = sum.node;
  const int chunk = sum.chunk;
  const int rank = mesh_->rank();
  const int owner = routes_.OwnerOf(sum.chunk);
  absl::ReleasableMutexLock lock(&mu_);
  Own& own = own_[step];
  if (own.sample_counts.emplace(sum.node, sum.sample_count).second) {
    own.share.sample_count += sum.sample_count;
    if (own.sample_counts.size() == routes_.NodesOf(rank).size()) {
      own.share.learning_rate = rates().Of(step).value_or(-1);
      for (int member = 0; member < mesh_->size(); ++member) {
        if (member == rank || !routes_.IsSource(rank, member)) continue;
        own.sends.push_back(
            Send(member, AllReduceTag(AllReduceKind::kShare, step, 0, 0),
                 &own.share, sizeof(own.share)));
      }
    }
  }
  if (sum.chunk == 0) {
    const auto loss = own.losses.emplace(sum.node, sum.loss_sum).first;
    if (rank != 0) {
      own.sends.push_back(
          Send(0, AllReduceTag(AllReduceKind::kLoss, step, 0, sum.node),
               &loss->second, sizeof(loss->second)));
    }
  }
  ++own.pushing;
  lock.Release();
  // Send may copy the chunk, so call it without the lock.
  Transfer sent;
  if (owner != rank) {
    sent = SendChunk(
        owner,
        AllReduceTag(AllReduceKind::kGradient, step, sum.chunk, sum.node),
        sum.arena.get() + layout_->ChunkBegin(sum.chunk),
        layout_->ChunkSize(sum.chunk) * int64_t{sizeof(float)}, sum.ready);
  }
  absl::MutexLock again(&mu_);
  --own.pushing;
  if (sent != nullptr) own.sends.push_back(std::move(sent));
  own.chunks[chunk].emplace(node, std::move(sum));
  if (trace_ != nullptr) {
    trace_->Pushed(step, chunk, node, begin);
  }
}

void AllReduceExchange::FillStatistics(ProcessStatistics* statistics) const {
  statistics->set_bytes_sent(bytes_sent_);
  statistics->set_bytes_received(bytes_received_);
  *statistics->mutable_chunk_latency() = latency_.counts();
}

void AllReduceExchange::Finish() {
  const auto done = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return done_; };
  absl::MutexLock lock(&mu_);
  finishing_ = true;
  Await(&mu_, absl::Condition(&done));
}

absl::StatusOr<float*> AllReduceExchange::BeginWrite(int64_t step, int chunk) {
  float* to = nullptr;
  if (sink_->BeginWrite(chunk, step + 1, &to) == WeightsSink::Arrival::kWrite) {
    return to;
  }
  return absl::InternalError(
      absl::StrCat("cannot write version ", step + 1, " of chunk ", chunk));
}

void AllReduceExchange::EndWrite(int64_t step, int chunk) {
  if (trace_ != nullptr && routes_.OwnerOf(chunk) != mesh_->rank()) {
    trace_->Arrived(step + 1, chunk, MonotonicNow());
  }
  sink_->EndWrite(chunk, step + 1);
  latency_.Arrived(chunk, MonotonicNow());
}

bool AllReduceExchange::SaveAt(int64_t version) {
  absl::MutexLock lock(&mu_);
  if (version <= next_step_) return false;
  save_at_.insert(version);
  return true;
}

bool AllReduceExchange::KeepsVersion(int64_t version) const {
  return version == options_.steps ||
         (options_.keep_every > 0 && version % options_.keep_every == 0);
}

bool AllReduceExchange::BeginStep(int64_t step) {
  absl::MutexLock lock(&mu_);
  next_step_ = step + 1;
  const bool asked = save_at_.erase(step + 1) > 0;
  return options_.save != nullptr && (asked || KeepsVersion(step + 1));
}

void AllReduceExchange::RunSteps() {
  absl::Status status;
  for (int64_t step = options_.first_step; status.ok() && step < options_.steps;
       ++step) {
    status = AllReduceStep(this, step).Run();
  }
  absl::MutexLock lock(&mu_);
  if (!status.ok() && !ending_ && !finishing_) sink_->Fail(status);
  done_ = true;
}

}  // namespace tributary

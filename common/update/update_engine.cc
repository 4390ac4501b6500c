#include "common/update/update_engine.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/failpoint.h"
#include "common/base/status_macros.h"
#include "common/job/rounds.h"
#include "common/numerics/streaming_copy.h"
#include "common/parameters/reduction_tree.h"
#include "common/text/counted.h"
#include "common/update/consistency/create_consistency_policy.h"

namespace tributary {
namespace {

// Returns null if ordinary memory is as fast.
std::function<Buffer()> SourceOf(const ChunkPasses& passes) {
  if (passes.host_buffer != nullptr) return passes.host_buffer;
  return [] { return nullptr; };
}

}  // namespace

absl::StatusOr<std::unique_ptr<UpdateEngine>> UpdateEngine::Create(
    const Options& options, ArenaLayout layout, Executor* pool,
    SumsCallback on_sums) {
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<ConsistencyPolicy> policy,
                             CreateConsistencyPolicy(options.job, options.steps,
                                                     options.first_version));
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer,
                             Optimizer::Create(options.job.optimizer()));
  ChunkPassPlan plan;
  plan.job = &options.job;
  plan.layout = &layout;
  plan.chunks = layout.ChunksOf(options.shard, options.servers);
  plan.optimizer = optimizer.get();
  TRIBUTARY_ASSIGN_OR_RETURN(ChunkPasses passes, options.make_passes(plan));
  return std::unique_ptr<UpdateEngine>(new UpdateEngine(
      options, std::move(layout), pool, std::move(policy), std::move(optimizer),
      std::move(passes), std::move(on_sums)));
}

UpdateEngine::UpdateEngine(const Options& options, ArenaLayout layout,
                           Executor* pool,
                           std::unique_ptr<ConsistencyPolicy> policy,
                           std::unique_ptr<Optimizer> optimizer,
                           ChunkPasses passes, SumsCallback on_sums)
    : options_(options),
      leaves_(static_cast<int>(options.job.batch().micro_batches())),
      policy_(std::move(policy)),
      recipe_(options.job, options.steps, StatisticsRate(options.job)),
      traits_(ResolveExchange(options.job)),
      layout_(std::move(layout)),
      check_(layout_, leaves_, options.steps, options.sample_counts),
      // With compression, the weights are read again at once, so they should
      // stay in the cache.
      streams_(!options.job.exchange().has_compression() &&
               layout_.arena_elements() / options.servers *
                       int64_t{sizeof(float)} >=
                   kStreamingBytes),
      pool_(pool),
      optimizer_(std::move(optimizer)),
      slots_(optimizer_->slots()),
      on_sums_(std::move(on_sums)),
      pin_memory_(passes.pin),
      device_share_(std::move(passes.share)),
      chunk_numbers_(layout_.ChunksOf(options.shard, options.servers)),
      buffers_(std::min(layout_.chunk_elements(), layout_.arena_elements()),
               SourceOf(passes)),
      halves_((buffers_.elements() + 1) / 2),
      reports_(static_cast<int>(chunk_numbers_.size())),
      group_(passes.group != nullptr ? std::move(passes.group)
                                     : RunPassesOneByOne()),
      queue_(pool, QueueOptions()) {
  for (size_t place = 0; place < chunk_numbers_.size(); ++place) {
    chunks_.push_back(std::make_unique<Chunk>(this, chunk_numbers_[place],
                                              static_cast<int>(place),
                                              std::move(passes.passes[place])));
  }
}

UpdateEngine::Chunk::Chunk(UpdateEngine* store, int number, int place,
                           std::unique_ptr<ChunkPass> pass)
    : number(number),
      place(place),
      elements(store->layout_.ChunkSize(number)),
      weights(&store->options_.job.exchange(), elements, &store->buffers_,
              &store->halves_),
      contributions(store->policy_->NewQueue()),
      pass(std::move(pass)) {
  weights.SetFetch([this, store](int64_t version, float* to) {
    absl::Status fetched = this->pass->Fetch(version, to);
    if (!fetched.ok()) store->Fail(*this, fetched);
    return fetched;
  });
}

UpdateEngine::Chunk* UpdateEngine::Find(int chunk) const {
  const auto place =
      std::lower_bound(chunk_numbers_.begin(), chunk_numbers_.end(), chunk);
  if (place == chunk_numbers_.end() || *place != chunk) return nullptr;
  return chunks_[place - chunk_numbers_.begin()].get();
}

absl::Status UpdateEngine::CheckChunk(int chunk) const {
  if (Find(chunk) != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "chunk ", chunk, " is not one of server ", options_.shard, "'s ",
      chunks_.size(), " of ", Counted(layout_.chunk_count(), "chunk")));
}

absl::Status UpdateEngine::AddInitial(int number, Buffer values) {
  TRIBUTARY_RETURN_IF_ERROR(CheckChunk(number));
  Chunk* chunk = Find(number);
  if (device_share_ == nullptr) {
    SetInitial(chunk, std::move(values));
  } else {
    // The caller must not wait for the device.
    pool_->Run([this, chunk, values = std::move(values)] {
      SetInitial(chunk, values);
    });
  }
  return absl::OkStatus();
}

void UpdateEngine::SetInitial(Chunk* chunk, Buffer values) {
  absl::MutexLock lock(&chunk->mu);
  if (chunk->weights.version() >= 0) return;
  if (device_share_ != nullptr) {
    const absl::Status placed = chunk->pass->Place(/*version=*/0, values.get());
    if (!placed.ok()) return Fail(*chunk, placed);
  }
  chunk->weights.Initialize(/*version=*/0, std::move(values));
  Publish(chunk, /*more=*/false);
}

Snapshot UpdateEngine::BlankSnapshot() {
  return MakeSnapshot(layout_, chunk_numbers_, slots_);
}

void UpdateEngine::Restore(Snapshot snapshot) {
  for (const auto& chunk : chunks_) {
    Snapshot::Chunk& from = snapshot.chunks[chunk->place];
    absl::MutexLock lock(&chunk->mu);
    chunk->weights.Initialize(snapshot.version, std::move(from.values));
    absl::Status restored = chunk->pass->Restore(std::move(from.slots));
    if (device_share_ != nullptr) {
      restored.Update(
          chunk->pass->Place(snapshot.version, chunk->weights.Newest().get()));
    }
    if (!restored.ok()) Fail(*chunk, restored);
  }
}

int64_t UpdateEngine::CompleteVersion() const {
  int64_t version = options_.steps;
  for (const auto& chunk : chunks_) {
    absl::MutexLock lock(&chunk->mu);
    version = std::min(version, chunk->weights.version());
  }
  return version;
}

bool UpdateEngine::TakeSnapshot(int64_t version,
                                std::function<void(Snapshot)> done) {
  const auto capture = std::make_shared<SnapshotCapture>(
      version, chunks_.size(), std::move(done));
  absl::MutexLock capture_lock(&capture_mu_);
  bool passed = false;
  for (const auto& chunk : chunks_) {
    absl::MutexLock lock(&chunk->mu);
    chunk->capture = nullptr;
    const int64_t now = chunk->weights.version();
    if (passed || now > version || (chunk->updating && now + 1 >= version)) {
      passed = true;
    } else if (now == version) {
      absl::StatusOr<Snapshot::Chunk> copy = CopyNow(chunk.get());
      if (copy.ok()) capture->Put(chunk->place, *std::move(copy));
      passed = !copy.ok();
    } else {
      chunk->capture = capture;
    }
  }
  if (passed) {
    for (const auto& chunk : chunks_) {
      absl::MutexLock lock(&chunk->mu);
      if (chunk->capture == capture) chunk->capture = nullptr;
    }
    return false;
  }
  capture->Release();
  return true;
}

absl::Status UpdateEngine::Missing(const Chunk& chunk) {
  return absl::InternalError(
      absl::StrCat("the weights of chunk ", chunk.number,
                   " cannot be copied from the device that updates them"));
}

absl::StatusOr<Snapshot::Chunk> UpdateEngine::CopyNow(Chunk* chunk) {
  Snapshot::Chunk copy;
  copy.number = chunk->number;
  copy.elements = chunk->elements;
  const EncodedFloats values = chunk->weights.Exact(chunk->weights.version());
  if (values.data == nullptr) return Missing(*chunk);
  copy.values = Buffer(
      values.owner, const_cast<float*>(static_cast<const float*>(values.data)));
  for (int slot = 0; slot < slots_; ++slot) {
    copy.slots.push_back(buffers_.Take());
  }
  const absl::Status copied = chunk->pass->CopyState(copy.slots);
  if (!copied.ok()) Fail(*chunk, copied);
  TRIBUTARY_RETURN_IF_ERROR(copied);
  return copy;
}

absl::Status UpdateEngine::AddContribution(int number, NodeSum sum) {
  TRIBUTARY_RETURN_IF_ERROR(CheckChunk(number));
  TRIBUTARY_RETURN_IF_ERROR(check_.Check(number, sum));
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("S5"));
  Chunk* chunk = Find(number);
  const absl::Time begin = TraceTime();
  const int64_t step = sum.step;
  const int node = sum.node;
  {
    absl::MutexLock lock(&chunk->mu);
    TRIBUTARY_RETURN_IF_ERROR(CheckNotRevoked(sum.contributor));
    const absl::Status status =
        chunk->contributions->Add(chunk->weights.version(), std::move(sum));
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat("chunk ", number, ": ",
                                                      status.message()));
    }
    TraceContribution(chunk, step, node);
    if (options_.trace != nullptr) {
      options_.trace->Contributed(step, number, begin);
    }
    if (!TakeUpdate(chunk)) return Failpoint("S6");
  }
  if (chunk->pass->brief()) {
    OnTaken({chunk}, /*more=*/false);
  } else {
    Begin(chunk);
  }
  return Failpoint("S6");
}

bool UpdateEngine::TakeUpdate(Chunk* chunk) {
  if (chunk->updating) return false;
  while (true) {
    ContributionQueue::Decision decision =
        chunk->contributions->Next(chunk->weights.version());
    if (std::holds_alternative<ChunkUpdate>(decision)) {
      // Until the next version, only the task that begins now accesses it.
      chunk->update = std::get<ChunkUpdate>(std::move(decision));
      chunk->updating = true;
      return true;
    }
    if (!std::holds_alternative<ContributionOutcome>(decision)) return false;
    Answer(*chunk, std::get<ContributionOutcome>(decision));
  }
}

void UpdateEngine::Answer(const Chunk& chunk,
                          const ContributionOutcome& answer) {
  if (answer.receiver == 0) return;
  Outcome outcome;
  outcome.set_step(answer.step);
  outcome.set_chunk(chunk.number);
  outcome.set_refused(answer.refused);
  outcome.set_age(answer.age);
  // The sender may have disconnected.
  for (const Subscription& subscription : chunk.subscriptions) {
    if (subscription.subscriber->id() == answer.receiver) {
      subscription.subscriber->OnOutcome(outcome, chunk.weights.version());
    }
  }
}

UpdateQueue::Options UpdateEngine::QueueOptions() {
  UpdateQueue::Options options;
  options.most = group_->most();
  options.streams = group_->streams();
  options.run = [this](const std::vector<int>& numbers,
                       std::optional<double> norm) {
    std::vector<Chunk*> chunks;
    for (const int number : numbers) chunks.push_back(Find(number));
    if (norm.has_value()) {
      Update(chunks, norm, /*more=*/true);
    } else {
      OnTaken(chunks, /*more=*/true);
    }
  };
  options.on_idle = [this] { EndBurst(); };
  return options;
}

void UpdateEngine::EndBurst() {
  absl::MutexLock lock(&subscribers_mu_);
  for (WeightsSubscriber* subscriber : subscribers_) subscriber->OnBurstEnd();
}

void UpdateEngine::OnTaken(absl::Span<Chunk* const> chunks, bool more) {
  if (!traits_.updates_await_norm)
    return Update(chunks, /*norm=*/std::nullopt, more);
  std::vector<ChunkPassGroup::SumItem> items;
  for (Chunk* const chunk : chunks) {
    items.push_back({chunk->pass.get(), &chunk->update.sum});
  }
  const absl::Time begin = TraceTime();
  const absl::StatusOr<std::vector<double>> squares =
      group_->SumOfSquares(items);
  if (!squares.ok()) return Fail(*chunks[0], squares.status());
  const absl::Time end = TraceTime();
  for (Chunk* const chunk : chunks) {
    if (options_.trace == nullptr) break;
    options_.trace->Summed(chunk->update.step, chunk->number, begin, end);
  }
  for (size_t i = 0; i < chunks.size(); ++i) {
    ReportSum(*chunks[i], (*squares)[i]);
  }
}

void UpdateEngine::Fail(const Chunk& chunk, const absl::Status& status) {
  if (!options_.on_failure) return;
  const std::string message =
      absl::StrCat("chunk ", chunk.number, ": ", status.message());
  absl::call_once(failed_, options_.on_failure,
                  absl::Status(status.code(), message));
}

void UpdateEngine::ReportSum(const Chunk& chunk, double sum_of_squares) {
  const std::optional<StepSums> complete =
      reports_.Add({chunk.number, chunk.place, chunk.elements,
                    chunk.update.step, &chunk.update.sum, sum_of_squares});
  if (complete.has_value()) on_sums_(*complete);
}

void UpdateEngine::SetGradientNorm(int64_t step, double norm) {
  if (!traits_.updates_await_norm) return;
  for (const auto& chunk : chunks_) {
    {
      absl::MutexLock lock(&chunk->mu);
      if (chunk->weights.version() != step || !chunk->updating) continue;
    }
    queue_.Add(chunk->number, norm);
  }
}

void UpdateEngine::Update(absl::Span<Chunk* const> chunks,
                          std::optional<double> norm, bool more) {
  std::vector<std::unique_ptr<ChunkRun>> runs;
  std::vector<ChunkPassGroup::RunItem> items;
  for (Chunk* const chunk : chunks) {
    runs.push_back(BeginRun(chunk, norm.value_or(chunk->update.gradient_norm)));
    items.push_back({chunk->pass.get(), &runs.back()->arguments});
  }
  const absl::Time begin = TraceTime();
  const absl::StatusOr<std::vector<double>> squares = group_->Run(items);
  if (!squares.ok()) return Fail(*chunks[0], squares.status());
  const absl::Time end = TraceTime();
  for (const std::unique_ptr<ChunkRun>& run : runs) {
    if (options_.trace == nullptr) break;
    options_.trace->Updated(run->chunk->update.step, run->chunk->number,
                            run->traced_nodes, begin, end);
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    EndRun(std::move(runs[i]), (*squares)[i], more);
  }
}

std::unique_ptr<UpdateEngine::ChunkRun> UpdateEngine::BeginRun(Chunk* chunk,
                                                               double norm) {
  FailpointOrDie("S7");
  auto run = std::make_unique<ChunkRun>();
  run->chunk = chunk;
  {
    absl::MutexLock lock(&chunk->mu);
    run->weights = &chunk->weights;
    run->version = chunk->weights.version();
    if (options_.trace != nullptr) {
      run->traced_nodes = chunk->traced.Take(chunk->update.step);
    }
    if (chunk->capture != nullptr &&
        chunk->capture->version() == run->version + 1) {
      run->capture = std::move(chunk->capture);
    }
    run->next = chunk->weights.Begin(/*for_streams=*/std::any_of(
        chunk->subscriptions.begin(), chunk->subscriptions.end(),
        [](const Subscription& s) { return s.place == Place::kStream; }));
    run->next.on_device =
        !chunk->subscriptions.empty() &&
        std::all_of(
            chunk->subscriptions.begin(), chunk->subscriptions.end(),
            [](const Subscription& s) { return s.place == Place::kDevice; });
  }
  if (run->capture != nullptr || replicate_) {
    run->copy = BlankCopy(*chunk, run->next);
    run->next.on_device = false;
  }
  ChunkPass::Arguments& pass = run->arguments;
  pass.sum = &chunk->update.sum;
  pass.step = recipe_.At(run->version, chunk->update.sum.sample_count(), norm);
  pass.step.learning_rate /= chunk->update.learning_rate_divisor;
  pass.weights = run->weights;
  pass.next = &run->next;
  pass.to_host = !run->next.on_device;
  pass.streams = streams_;
  pass.skip = recipe_.Skips(norm);
  pass.copy = run->copy.has_value() ? &*run->copy : nullptr;
  return run;
}

void UpdateEngine::EndRun(std::unique_ptr<ChunkRun> run, double squares,
                          bool more) {
  Chunk* const chunk = run->chunk;
  run->weights->Complete(&run->next);
  // In synchronous mode no chunk can be summed for the next step before the new
  // version is published, so reports are made in the order of steps.
  if (!traits_.updates_await_norm) ReportSum(*chunk, squares);
  if (run->capture != nullptr) run->capture->Put(chunk->place, *run->copy);
  FailpointOrDie("S9");
  LedgerEntry(options_.attempt, chunk->number, chunk->update.step,
              chunk->update.sum.sample_count());
  if (!replicate_) {
    FinishUpdate(chunk, std::move(run->next), more);
    return;
  }
  replicate_(run->version + 1, *std::move(run->copy),
             [this, chunk, next = std::move(run->next)] {
               // The replica's answer may come after the burst.
               FinishUpdate(chunk, next, /*more=*/false);
             });
}

Snapshot::Chunk UpdateEngine::BlankCopy(const Chunk& chunk,
                                        const ChunkWeights::Next& next) {
  Snapshot::Chunk copy;
  copy.number = chunk.number;
  copy.elements = chunk.elements;
  copy.values = next.in_place ? buffers_.Take() : next.values;
  for (int slot = 0; slot < slots_; ++slot) {
    copy.slots.push_back(buffers_.Take());
  }
  return copy;
}

void UpdateEngine::FinishUpdate(Chunk* chunk, ChunkWeights::Next next,
                                bool more) {
  const ChunkUpdate done = std::exchange(chunk->update, ChunkUpdate());
  {
    absl::MutexLock lock(&chunk->mu);
    chunk->weights.Finish(std::move(next));
    FailpointOrDie("S10");
    const absl::Time begin = TraceTime();
    Publish(chunk, more);
    TracePublication(*chunk, done.step, begin);
    if (done.outcome.has_value()) Answer(*chunk, *done.outcome);
    chunk->updating = false;
    if (!TakeUpdate(chunk)) return;
  }
  // Schedules instead of calling directly, to bound the recursion for a chunk
  // with a long queue.
  Begin(chunk);
}

}  // namespace tributary

#include "common/update/update_engine.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/base/call_once.h"
#include "absl/strings/str_cat.h"
#include "common/base/failpoint.h"
#include "common/base/status_macros.h"
#include "common/job/rounds.h"
#include "common/numerics/streaming_copy.h"
#include "common/text/counted.h"

namespace tributary {
namespace {

// Returns a function that calls `on_failure` with the first error of a chunk.
std::function<void(int, const absl::Status&)> FirstFailure(
    std::function<void(const absl::Status&)> on_failure) {
  if (on_failure == nullptr) return [](int, const absl::Status&) {};
  return [on_failure = std::move(on_failure),
          failed = std::make_shared<absl::once_flag>()](
             int chunk, const absl::Status& status) {
    absl::call_once(
        *failed, on_failure,
        absl::Status(status.code(),
                     absl::StrCat("chunk ", chunk, ": ", status.message())));
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<UpdateEngine>> UpdateEngine::Create(
    const Options& options, ArenaLayout layout, Executor* pool,
    SumsCallback on_sums) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::unique_ptr<ConsistencyPolicy> policy,
      ConsistencyPolicy::Create(options.job, options.steps,
                                options.first_version));
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer,
                             Optimizer::Create(options.job.optimizer()));
  ChunkPassPlan plan;
  plan.job = &options.job;
  plan.layout = &layout;
  plan.chunks = layout.ChunksOf(options.shard, options.servers);
  plan.optimizer = optimizer.get();
  TRIBUTARY_ASSIGN_OR_RETURN(ChunkPasses passes, options.make_passes(plan));
  std::unique_ptr<UpdateEngine> engine(new UpdateEngine(
      options, std::move(layout), pool, std::move(policy), std::move(optimizer),
      std::move(passes), std::move(on_sums)));
  if (options.job.has_sparse()) {
    TableEngine::Options tables;
    tables.job = options.job;
    tables.steps = options.steps;
    tables.shard = options.shard;
    tables.servers = options.servers;
    tables.first_version = options.first_version;
    tables.awaits_norm = engine->traits_.updates_await_norm;
    tables.whole_batches = engine->traits_.whole_batches;
    tables.attempt = options.attempt;
    tables.ledger_place = engine->layout_.chunk_count() + options.shard;
    tables.check = [engine = engine.get()](const NodeSum& sum) {
      TRIBUTARY_RETURN_IF_ERROR(engine->CheckNotRevoked(sum.contributor));
      return engine->check_.CheckStep("rows", sum);
    };
    tables.rates = &engine->rates_;
    tables.on_failure = options.on_failure;
    tables.on_sums = [sums = engine->sums_.get()](const StepSums& part) {
      sums->Add(part);
    };
    TRIBUTARY_ASSIGN_OR_RETURN(engine->tables_,
                               TableEngine::Create(std::move(tables), pool));
  }
  return engine;
}

UpdateEngine::UpdateEngine(const Options& options, ArenaLayout layout,
                           Executor* pool,
                           std::unique_ptr<ConsistencyPolicy> policy,
                           std::unique_ptr<Optimizer> optimizer,
                           ChunkPasses passes, SumsCallback on_sums)
    : options_(options),
      policy_(std::move(policy)),
      recipe_(options.job, options.steps, StatisticsRate(options.job)),
      traits_(ResolveExchange(options.job)),
      layout_(std::move(layout)),
      check_(layout_, static_cast<int>(options.job.batch().micro_batches()),
             options.steps, options.sample_counts),
      pool_(pool),
      optimizer_(std::move(optimizer)),
      chunk_numbers_(layout_.ChunksOf(options.shard, options.servers)),
      dense_(options.steps),
      memory_(&layout_, &dense_, passes, pool),
      rates_(/*required=*/options.job.schedule().decay() ==
             ScheduleSpec::PLATEAU),
      trust_ratios_(optimizer_->has_trust_ratios()
                        ? std::make_optional<TrustRatios>(layout_)
                        : std::nullopt),
      settings_(ChunkSettings()),
      sums_(options.job.has_sparse()
                ? std::make_unique<StepSumsJoin>(chunk_numbers_.empty() ? 1 : 2,
                                                 on_sums)
                : nullptr),
      runner_(pool,
              RunnerOptions(std::move(passes.group), std::move(on_sums))) {
  for (size_t place = 0; place < chunk_numbers_.size(); ++place) {
    const int number = chunk_numbers_[place];
    dense_.Add(std::make_unique<ChunkUpdater>(
        &settings_, number, static_cast<int>(place), layout_.ChunkSize(number),
        policy_->NewQueue(), std::move(passes.passes[place])));
  }
}

ChunkUpdater::Settings UpdateEngine::ChunkSettings() {
  ChunkUpdater::Settings settings;
  const ExchangeSpec& exchange = options_.job.exchange();
  settings.exchange = exchange;
  settings.awaits_norm = traits_.updates_await_norm;
  // With compression, the weights are read again at once, so they should stay
  // in the cache.
  settings.streams =
      !exchange.has_compression() &&
      layout_.arena_elements() / options_.servers * int64_t{sizeof(float)} >=
          kStreamingBytes;
  if (trust_ratios_.has_value()) settings.trust_ratios = &*trust_ratios_;
  settings.slots = optimizer_->slots();
  settings.attempt = options_.attempt;
  settings.recipe = &recipe_;
  settings.rates = &rates_;
  settings.buffers = memory_.buffers();
  settings.halves = memory_.halves();
  settings.shares_device = memory_.device_share() != nullptr;
  settings.trace = options_.trace;
  settings.revoked = &revoked_;
  settings.on_failure = FirstFailure(options_.on_failure);
  return settings;
}

StepRunner::Options UpdateEngine::RunnerOptions(
    std::unique_ptr<ChunkPassGroup> passes, SumsCallback on_sums) {
  StepRunner::Options options;
  options.group = &dense_;
  options.policy = policy_.get();
  options.passes = std::move(passes);
  options.awaits_norm = traits_.updates_await_norm;
  options.has_trust_ratios = trust_ratios_.has_value();
  options.trace = options_.trace;
  options.on_sums = std::move(on_sums);
  if (sums_ != nullptr) {
    options.on_sums = [this](const StepSums& sums) { sums_->Add(sums); };
  }
  options.on_idle = [this] {
    absl::MutexLock lock(&subscribers_mu_);
    for (WeightsSubscriber* subscriber : subscribers_) subscriber->OnBurstEnd();
  };
  options.on_failure = settings_.on_failure;
  return options;
}

absl::Status UpdateEngine::CheckChunk(int chunk) const {
  if (dense_.Find(chunk) != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "chunk ", chunk, " is not one of server ", options_.shard, "'s ",
      chunk_numbers_.size(), " of ", Counted(layout_.chunk_count(), "chunk")));
}

absl::Status UpdateEngine::AddInitial(int number, Buffer values) {
  TRIBUTARY_RETURN_IF_ERROR(CheckChunk(number));
  ChunkUpdater* const chunk = dense_.Find(number);
  if (memory_.device_share() == nullptr) {
    chunk->Initialize(/*version=*/0, std::move(values), /*slots=*/{});
  } else {
    // The caller must not wait for the device.
    pool_->Run([chunk, values = std::move(values)] {
      chunk->Initialize(/*version=*/0, values, /*slots=*/{});
    });
  }
  return absl::OkStatus();
}

void UpdateEngine::Restore(Snapshot snapshot) {
  for (const auto& chunk : dense_.chunks()) {
    Snapshot::Chunk& from = snapshot.chunks[chunk->place()];
    chunk->Initialize(snapshot.version, std::move(from.values),
                      std::move(from.slots));
  }
}

bool UpdateEngine::TakeSnapshot(int64_t version,
                                std::function<void(Snapshot)> done) {
  const auto capture = std::make_shared<SnapshotCapture>(
      version, chunk_numbers_.size(), std::move(done));
  absl::MutexLock lock(&capture_mu_);
  bool captured = true;
  for (const auto& chunk : dense_.chunks()) {
    captured &= chunk->Capture(captured ? capture : nullptr);
  }
  if (captured) {
    capture->Release();
  } else {
    for (const auto& chunk : dense_.chunks()) chunk->Capture(nullptr);
  }
  return captured;
}

void UpdateEngine::Revoke(int64_t incarnation) {
  revoked_.Add(incarnation);
  for (const auto& chunk : dense_.chunks()) chunk->DropFrom(incarnation);
  if (tables_ != nullptr) tables_->DropFrom(incarnation);
}

absl::Status UpdateEngine::AddContribution(int number, NodeSum sum) {
  TRIBUTARY_RETURN_IF_ERROR(CheckChunk(number));
  TRIBUTARY_RETURN_IF_ERROR(check_.Check(number, sum));
  if (sum.learning_rate.has_value() && traits_.local_sgd) {
    return absl::InvalidArgumentError(
        "learning_rate in consistency mode local_steps");
  }
  TRIBUTARY_RETURN_IF_ERROR(rates_.Add(sum.step, sum.learning_rate));
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("S5"));
  ChunkUpdater* const chunk = dense_.Find(number);
  TRIBUTARY_ASSIGN_OR_RETURN(const bool complete,
                             chunk->Contribute(std::move(sum)));
  if (complete) runner_.Begin(chunk);
  return Failpoint("S6");
}

absl::Status UpdateEngine::SetGradientNorm(int64_t step, double norm,
                                           std::vector<float> trust_ratios) {
  const int count = trust_ratios_.has_value() ? trust_ratios_->count() : 0;
  if (static_cast<int>(trust_ratios.size()) != count) {
    return absl::InvalidArgumentError(
        absl::StrCat("step ", step, " with ", trust_ratios.size(),
                     " trust ratios, expected ", count));
  }
  for (size_t i = 0; i < trust_ratios.size(); ++i) {
    if (std::isfinite(trust_ratios[i]) && trust_ratios[i] >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("step ", step, ": trust ratio ", i, " is ",
                     trust_ratios[i], ", expected a number of at least 0"));
  }
  runner_.SetGradientNorm(
      step, norm,
      trust_ratios_.has_value()
          ? std::make_shared<const std::vector<float>>(std::move(trust_ratios))
          : nullptr);
  if (tables_ != nullptr) tables_->SetGradientNorm(step, norm);
  return absl::OkStatus();
}

void UpdateEngine::Subscribe(WeightsSubscriber* subscriber, MemoryPlace place,
                             const ChunkRanges& chunks) {
  // Before any call of OnWeights with WeightsVersion::more, so that OnBurstEnd
  // follows.
  {
    absl::MutexLock lock(&subscribers_mu_);
    subscribers_.push_back(subscriber);
  }
  for (const int number : chunk_numbers_) {
    if (chunks.Contains(number)) {
      dense_.Find(number)->Subscribe(subscriber, place);
    }
  }
}

void UpdateEngine::Unsubscribe(WeightsSubscriber* subscriber) {
  for (const auto& chunk : dense_.chunks()) chunk->Unsubscribe(subscriber);
  absl::MutexLock lock(&subscribers_mu_);
  subscribers_.erase(
      std::remove(subscribers_.begin(), subscribers_.end(), subscriber),
      subscribers_.end());
}

absl::StatusOr<WeightsVersion> UpdateEngine::Read(int chunk, int64_t version,
                                                  WeightsForm form) {
  TRIBUTARY_RETURN_IF_ERROR(CheckChunk(chunk));
  return dense_.Find(chunk)->Read(version, form);
}

int64_t NewestPossibleStep(const UpdateEngine& engine) {
  // A server may have tables and no chunks.
  int64_t newest = engine.tables() == nullptr ? 0 : engine.tables()->version();
  for (const auto& chunk : engine.chunks().chunks()) {
    newest = std::max(newest, chunk->version());
  }
  return newest + 1 + engine.traits().staleness;
}

int64_t CompleteVersion(const UpdateEngine& engine) {
  const int64_t version = engine.chunks().CompleteVersion();
  if (engine.tables() == nullptr) return version;
  return std::min(version, engine.tables()->version());
}

std::optional<MissingWork> FindMissingWork(const UpdateEngine& engine) {
  std::optional<MissingWork> missing = engine.chunks().FindMissingWork();
  if (engine.tables() == nullptr) return missing;
  const std::optional<MissingWork> of_tables =
      engine.tables()->FindMissingWork();
  if (of_tables.has_value() &&
      (!missing.has_value() || of_tables->step() < missing->step())) {
    missing = of_tables;
  }
  return missing;
}

}  // namespace tributary

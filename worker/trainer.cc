#include "worker/trainer.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "absl/synchronization/blocking_counter.h"
#include "absl/time/clock.h"
#include "common/status_macros.h"

namespace tributary {
namespace {

// One thread reads ahead: reading is far faster than computing, and more would
// take the lanes' cores.
constexpr int kReadThreads = 1;

}  // namespace

// Ties one leaf's computation to the exchange: waits for its weights, hands its
// gradients on chunk by chunk.
class Trainer::LeafObserver final : public StepObserver {
 public:
  LeafObserver(WorkState* state, const Task* task, const ArenaLayout* layout,
               int leaf, int64_t weight, Buffer arena, SubtreeReducer* reducer)
      : state_(state),
        task_(task),
        layout_(layout),
        leaf_(leaf),
        weight_(weight),
        arena_(std::move(arena)),
        reducer_(reducer),
        last_chunk_(layout->chunk_count() - 1) {}

  bool WeightsNeeded(int64_t begin, int64_t end) override {
    const absl::Time start = absl::Now();
    const bool there = state_->AwaitWeights(*task_, begin, end);
    waited_ += absl::Now() - start;
    return there;
  }

  // Chunk 0 waits for Finish: it carries the leaf's loss.
  void GradientsReady(int64_t begin) override {
    while (last_chunk_ > 0 && layout_->ChunkBegin(last_chunk_) >= begin) {
      reducer_->ChunkReady(leaf_, last_chunk_--, arena_, weight_,
                           /*loss_sum=*/0);
    }
  }

  void Finish(double loss_sum) {
    reducer_->ChunkReady(leaf_, /*chunk=*/0, std::move(arena_), weight_,
                         loss_sum);
  }

  absl::Duration waited() const { return waited_; }

 private:
  WorkState* const state_;
  const Task* const task_;
  const ArenaLayout* const layout_;
  const int leaf_;
  const int64_t weight_;
  Buffer arena_;
  SubtreeReducer* const reducer_;
  int last_chunk_;  // Those above it have been handed on.
  absl::Duration waited_;
};

Trainer::Trainer(const TrainingSetup* setup, WorkState* state,
                 Exchange* exchange, Report report)
    : setup_(setup),
      state_(state),
      exchange_(exchange),
      report_(std::move(report)),
      read_ahead_(
          &setup->data(), &setup->sampler(), kReadThreads,
          /*depth=*/2 * static_cast<int>(setup->job().batch().micro_batches())),
      lanes_(setup->lanes()) {}

absl::Status Trainer::Run() {
  while (true) {
    SetPhase("exchange", -1);
    const absl::Time start = absl::Now();
    const Task task = state_->Next();
    Times times;
    // All lanes wait.
    times.exchange = (absl::Now() - start) * setup_->lanes();
    switch (task.kind) {
      case Task::Kind::kInitialize:
        Initialize();
        break;
      case Task::Kind::kReportSynced: {
        WorkerReport report;
        report.mutable_synced()->set_version(task.version);
        report_(report);
        break;
      }
      case Task::Kind::kEvaluate:
        Add(times, /*leaves=*/0);
        TRIBUTARY_RETURN_IF_ERROR(Evaluate(task));
        break;
      case Task::Kind::kTrain: {
        Add(times, /*leaves=*/0);
        const absl::Status status = Train(task);
        // Aborted: given up for a newer deal or version; Next knows what to do.
        if (!status.ok() && !absl::IsAborted(status)) return status;
        break;
      }
      case Task::Kind::kFinish:
        return absl::OkStatus();
      case Task::Kind::kFail:
        return state_->status();
    }
  }
}

void Trainer::Initialize() {
  const Buffer arena = exchange_->TakeArena();
  setup_->model(0)->Initialize(setup_->job().seed(), setup_->layout(),
                               arena.get());
  exchange_->PushInitial(arena);
}

absl::Status Trainer::Train(const Task& task) {
  SetPhase("compute", task.version);
  SubtreeReducer reducer(
      &setup_->layout(),
      static_cast<int>(setup_->job().batch().micro_batches()), task.items,
      [this, &task](NodeChunk sum) {
        exchange_->Push(task.version, std::move(sum));
      });
  for (const int64_t leaf : task.items) {
    read_ahead_.Expect(task.version, static_cast<int>(leaf));
  }
  if (task.version + 1 < setup_->facts().steps()) {
    for (const int64_t leaf : task.items) {
      read_ahead_.Expect(task.version + 1, static_cast<int>(leaf));
    }
  }
  TRIBUTARY_RETURN_IF_ERROR(
      OnLanes(task.items, [&](int lane, int64_t leaf) -> absl::Status {
        return TrainLeaf(task, lane, static_cast<int>(leaf), &reducer);
      }));
  state_->MarkDone(task);
  return absl::OkStatus();
}

absl::Status Trainer::TrainLeaf(const Task& task, int lane, int leaf,
                                SubtreeReducer* reducer) {
  const absl::Time start = absl::Now();
  const std::shared_ptr<const Batch> batch =
      read_ahead_.Take(task.version, leaf);
  const absl::Time computing = absl::Now();
  const int64_t weight =
      static_cast<int64_t>(batch->labels.size() + batch->values.size());
  const Buffer gradients = exchange_->TakeArena();
  LeafObserver observer(state_, &task, &setup_->layout(), leaf, weight,
                        gradients, reducer);
  TRIBUTARY_ASSIGN_OR_RETURN(
      const LossSums loss,
      setup_->model(lane)->ForwardBackward(
          *batch, setup_->job().seed(), task.version, leaf,
          state_->Weights(task.version), gradients.get(), &observer));
  observer.Finish(loss.loss);
  Times times;
  times.data = computing - start;
  times.exchange = observer.waited();
  times.compute = absl::Now() - computing - observer.waited();
  Add(times, /*leaves=*/1);
  return absl::OkStatus();
}

absl::Status Trainer::Evaluate(const Task& task) {
  SetPhase("evaluate", task.version);
  const absl::Time start = absl::Now();
  TRIBUTARY_RETURN_IF_ERROR(
      OnLanes(task.items, [&](int lane, int64_t piece) -> absl::Status {
        return EvaluatePiece(task, lane, piece);
      }));
  Times times;
  times.evaluation = (absl::Now() - start) * setup_->lanes();
  Add(times, /*leaves=*/0);
  state_->MarkDone(task);
  return absl::OkStatus();
}

absl::Status Trainer::EvaluatePiece(const Task& task, int lane, int64_t piece) {
  Batch batch;
  const int64_t begin = piece * setup_->piece_samples();
  const int64_t end = std::min(begin + setup_->piece_samples(),
                               setup_->data().evaluation_samples());
  setup_->data().ReadEvaluation(begin, end, &batch);
  TRIBUTARY_ASSIGN_OR_RETURN(
      const LossSums sums,
      setup_->model(lane)->Evaluate(batch, state_->Weights(task.version)));
  WorkerReport report;
  EvaluationReport* evaluation = report.mutable_evaluation();
  evaluation->set_version(task.version);
  evaluation->set_piece(piece);
  evaluation->set_loss_sum(sums.loss);
  evaluation->set_correct(sums.correct);
  evaluation->set_weight(sums.weight);
  report_(report);
  return absl::OkStatus();
}

absl::Status Trainer::OnLanes(
    const std::vector<int64_t>& items,
    const std::function<absl::Status(int lane, int64_t item)>& work) {
  std::atomic<size_t> next{0};
  absl::Mutex mu;
  absl::Status first;
  const int lanes = std::min(setup_->lanes(), static_cast<int>(items.size()));
  absl::BlockingCounter running(lanes);
  for (int lane = 0; lane < lanes; ++lane) {
    lanes_.Run([&, lane] {
      for (size_t i = next++; i < items.size(); i = next++) {
        const absl::Status status = work(lane, items[i]);
        if (status.ok()) continue;
        absl::MutexLock lock(&mu);
        if (first.ok()) first = status;
        break;
      }
      running.DecrementCount();
    });
  }
  running.Wait();
  return first;
}

void Trainer::SetPhase(const char* phase, int64_t step) {
  absl::MutexLock lock(&mu_);
  phase_ = phase;
  if (step >= 0) step_ = step;
}

void Trainer::Add(const Times& times, int leaves) {
  absl::MutexLock lock(&mu_);
  times_.compute += times.compute;
  times_.exchange += times.exchange;
  times_.data += times.data;
  times_.evaluation += times.evaluation;
  leaves_ += leaves;
}

Heartbeat Trainer::Progress() const {
  absl::MutexLock lock(&mu_);
  Heartbeat heartbeat;
  heartbeat.set_step(step_);
  heartbeat.set_phase(phase_);
  const double lanes = setup_->lanes();
  ProcessStatistics* statistics = heartbeat.mutable_statistics();
  statistics->set_compute_seconds(absl::ToDoubleSeconds(times_.compute) /
                                  lanes);
  statistics->set_exchange_seconds(absl::ToDoubleSeconds(times_.exchange) /
                                   lanes);
  statistics->set_data_seconds(absl::ToDoubleSeconds(times_.data) / lanes);
  statistics->set_evaluation_seconds(absl::ToDoubleSeconds(times_.evaluation) /
                                     lanes);
  statistics->set_leaves(leaves_);
  return heartbeat;
}

}  // namespace tributary

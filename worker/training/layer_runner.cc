#include "worker/training/layer_runner.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/time/time.h"
#include "common/base/failpoint.h"
#include "common/base/status_macros.h"
#include "worker/data/batch.h"
#include "worker/nn/step_observer.h"
#include "worker/training/evaluator.h"

namespace tributary {
namespace {

// The gradients of a few chunks may wait to be sent in any case.
constexpr int64_t kFewChunks = 4;

std::set<int> ChunksOf(const LayerwiseModel& model, int group) {
  std::set<int> chunks;
  for (const StageSplit::Range& range : model.group(group).read_chunks) {
    for (int64_t chunk = range.begin; chunk < range.end; ++chunk) {
      chunks.insert(static_cast<int>(chunk));
    }
  }
  return chunks;
}

std::set<int> Union(std::set<int> one, const std::set<int>& other) {
  one.insert(other.begin(), other.end());
  return one;
}

// Returns the most chunks to which a group contributes.
int64_t MostChunks(const LayerwiseModel& model) {
  int64_t most = 0;
  for (int i = 0; i < model.groups(); ++i) {
    most = std::max(most, model.group(i).chunks.size());
  }
  return most;
}

// Returns how many chunks of gradients may wait to be sent when the worker
// begins to compute a group.
int64_t MostWaiting(const LayerwiseModel& model) {
  return MostChunks(model) + kFewChunks;
}

}  // namespace

class LayerRunner::Holding {
 public:
  // Visits the groups in this order.
  Holding(const LayerRunner& runner, const Task& task, std::vector<int> visits)
      : model_(runner.model_),
        task_(task),
        layout_(runner.tools_.setup->layout()),
        state_(*runner.tools_.state),
        memory_(runner.memory_),
        visits_(std::move(visits)) {}
  ~Holding() { Keep({}); }

  // Frees the weights that neither this visit nor the next one needs, fetches
  // those that are missing, and waits for those of this visit. Returns false if
  // the task must be given up.
  bool Visit(size_t visit) {
    const std::set<int> now = ChunksOf(model_, visits_[visit]);
    std::set<int> kept = now;
    if (visit + 1 < visits_.size()) {
      kept = Union(kept, ChunksOf(model_, visits_[visit + 1]));
    }
    Keep(kept);
    for (const int chunk : now) Fetch(chunk);
    for (const int chunk : kept) Fetch(chunk);
    return std::all_of(now.begin(), now.end(), [this](int chunk) {
      const int64_t begin = layout_.ChunkBegin(chunk);
      return state_.AwaitWeights(task_, begin,
                                 begin + layout_.ChunkSize(chunk));
    });
  }

 private:
  void Fetch(int chunk) {
    if (!held_.insert(chunk).second) return;
    if (state_.Want(chunk, task_.version)) {
      memory_.Fetch(chunk, task_.version);
    }
  }
  void Keep(const std::set<int>& chunks) {
    for (auto it = held_.begin(); it != held_.end();) {
      if (chunks.count(*it) > 0) {
        ++it;
        continue;
      }
      state_.Release(*it);
      it = held_.erase(it);
    }
  }

  const LayerwiseModel& model_;
  const Task& task_;
  const ArenaLayout& layout_;
  WorkState& state_;
  ChunkMemory& memory_;
  const std::vector<int> visits_;
  std::set<int> held_;
};

LayerRunner::LayerRunner(const Tools& tools, LayerwiseModel* model)
    : tools_(tools), model_(*model), memory_(*tools.exchange->chunk_memory()) {}

LayerMemory LayerRunner::MemoryFor(const LayerwiseModel& model,
                                   const ArenaLayout& layout,
                                   int micro_batches) {
  int64_t weights = 0;
  for (int i = 0; i < model.groups(); ++i) {
    std::set<int> chunks = ChunksOf(model, i);
    if (i + 1 < model.groups()) {
      chunks = Union(std::move(chunks), ChunksOf(model, i + 1));
    }
    weights = std::max(weights, static_cast<int64_t>(chunks.size()));
  }
  // Sums of the micro-batches of a group: one for each level of the tree.
  int64_t sums = 1;
  while ((int64_t{1} << (sums - 1)) < micro_batches) ++sums;
  const int64_t chunk_bytes = layout.chunk_elements() * int64_t{sizeof(float)};
  LayerMemory memory;
  memory.weights = weights * chunk_bytes;
  memory.gradients =
      (MostWaiting(model) + sums * MostChunks(model)) * chunk_bytes;
  memory.activations = model.ActivationBytes(micro_batches);
  return memory;
}

MemoryAccount LayerRunner::Memory(int micro_batches,
                                  bool /*shares_memory*/) const {
  const LayerMemory needed =
      MemoryFor(model_, tools_.setup->layout(), micro_batches);
  MemoryAccount memory;
  memory.set_weights(needed.weights);
  memory.set_gradients(needed.gradients);
  memory.set_activations(needed.activations);
  return memory;
}

absl::Status LayerRunner::Initialize() {
  const ArenaLayout& layout = tools_.setup->layout();
  const Buffer arena = tools_.exchange->TakeArena();
  for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
    while (!memory_.AwaitReleased(kFewChunks, absl::Milliseconds(100))) {
      TRIBUTARY_RETURN_IF_ERROR(tools_.state->status());
    }
    const int64_t begin = layout.ChunkBegin(chunk);
    Buffer part = memory_.ChunkOf(arena, chunk);
    TRIBUTARY_RETURN_IF_ERROR(tools_.setup->MakeInitialElements(
        begin, begin + layout.ChunkSize(chunk), arena.get()));
    memory_.PushInitialChunk(chunk, std::move(part));
  }
  return absl::OkStatus();
}

absl::Status LayerRunner::Train(const Task& task, StepGradients* step) {
  const TaskWeights weights(task, tools_.state, *tools_.exchange,
                            /*device=*/nullptr, tools_.compute);
  const absl::Cleanup reset = [this] {
    // Other users of the device expect the random base to be unset.
    tools_.setup->device(/*thread=*/0)->SetRandomBase({});
  };
  std::vector<Item> items;
  TRIBUTARY_RETURN_IF_ERROR(Begin(task, step, &items));
  const int last = model_.groups() - 1;
  std::vector<int> visits;
  for (int group = 0; group <= last; ++group) visits.push_back(group);
  for (int group = last - 1; group >= 0; --group) visits.push_back(group);
  Holding holding(*this, task, visits);
  for (size_t visit = 0; visit < visits.size(); ++visit) {
    const int group = visits[visit];
    const bool forward = visit < static_cast<size_t>(last);
    tools_.compute->Switch(Activity::kExchange);
    if (!holding.Visit(visit)) return TaskGivenUp();
    for (Item& item : items) {
      tools_.compute->Begin(task.version, item.number);
      if (forward) {
        TRIBUTARY_RETURN_IF_ERROR(ForwardItem(task, group, weights, &item));
        continue;
      }
      if (group == last) {
        TRIBUTARY_RETURN_IF_ERROR(ForwardItem(task, group, weights, &item));
      }
      TRIBUTARY_RETURN_IF_ERROR(BackwardItem(group, &item));
    }
    tools_.compute->Switch(Activity::kExchange);
    TRIBUTARY_RETURN_IF_ERROR(AwaitSent(task, MostWaiting(model_)));
  }
  tools_.compute->Switch(Activity::kIdle);
  return absl::OkStatus();
}

absl::Status LayerRunner::Begin(const Task& task, StepGradients* step,
                                std::vector<Item>* items) {
  int slots = 0;
  for (const int64_t number : task.items) {
    Item item;
    item.number = static_cast<int>(number);
    item.samples =
        static_cast<int64_t>(tools_.setup->sampler()
                                 .MicroBatchOf(task.version, item.number)
                                 .indexes.size());
    if (item.samples > 0) {
      item.slot = slots++;
      tools_.compute->Begin(task.version, item.number);
      tools_.compute->Switch(Activity::kData);
      item.batch =
          tools_.batches->Take(/*thread=*/0, task.version, item.number);
      TRIBUTARY_RETURN_IF_ERROR(item.batch->error);
      item.sample_count = SampleCountOf(*item.batch);
    }
    item.gradients = std::make_unique<LeafGradients>(
        item.number, item.sample_count, tools_.exchange, step,
        /*device=*/nullptr, /*sums=*/nullptr);
    items->push_back(std::move(item));
  }
  return model_.AddSlots(slots);
}

NetworkPass::MicroBatch LayerRunner::MicroBatchOf(
    const Task& task, const Item& item, const TaskWeights& weights) const {
  return {
      tools_.setup->job().seed(), task.version,   item.number,      &weights,
      item.gradients.get(),       tools_.compute, item.sample_count};
}

absl::Status LayerRunner::ForwardItem(const Task& task, int group,
                                      const TaskWeights& weights, Item* item) {
  if (item->batch == nullptr) return absl::OkStatus();
  tools_.compute->Switch(Activity::kForward);
  const NetworkPass::MicroBatch micro_batch =
      MicroBatchOf(task, *item, weights);
  if (group + 1 < model_.groups()) {
    return model_.Forward(group, item->slot, *item->batch, micro_batch);
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      const LossSums loss, model_.Turn(item->slot, *item->batch, micro_batch));
  item->loss_sum = loss.loss;
  return absl::OkStatus();
}

absl::Status LayerRunner::BackwardItem(int group, Item* item) {
  tools_.compute->Switch(Activity::kBackward);
  if (item->batch == nullptr) {
    const StageSplit::Range elements = model_.group(group).elements;
    std::fill(item->gradients->data() + elements.begin,
              item->gradients->data() + elements.end, 0);
    item->gradients->Ready(elements.begin);
  } else if (group + 1 < model_.groups()) {
    TRIBUTARY_RETURN_IF_ERROR(model_.Backward(group, item->slot));
  }
  if (group > 0) return absl::OkStatus();
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("W6"));
  TRIBUTARY_RETURN_IF_ERROR(item->gradients->Finish(item->loss_sum));
  item->gradients.reset();
  item->batch.reset();
  return absl::OkStatus();
}

absl::Status LayerRunner::AwaitSent(const Task& task, int64_t most) const {
  while (!memory_.AwaitReleased(most, absl::Milliseconds(100))) {
    if (tools_.state->GivenUp(task)) return TaskGivenUp();
  }
  return absl::OkStatus();
}

absl::Status LayerRunner::Evaluate(const Task& task) {
  // As many pieces at a time as a step has micro-batches.
  const auto most =
      static_cast<size_t>(tools_.setup->job().batch().micro_batches());
  for (size_t begin = 0; begin < task.items.size(); begin += most) {
    const size_t end = std::min(begin + most, task.items.size());
    TRIBUTARY_RETURN_IF_ERROR(
        EvaluatePieces(task, {task.items.begin() + static_cast<int64_t>(begin),
                              task.items.begin() + static_cast<int64_t>(end)}));
  }
  return absl::OkStatus();
}

absl::Status LayerRunner::EvaluatePieces(const Task& task,
                                         const std::vector<int64_t>& pieces) {
  std::vector<Batch> batches(pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    TRIBUTARY_RETURN_IF_ERROR(Failpoint("W12"));
    const EvaluatedSamples samples(*tools_.setup, pieces[i]);
    tools_.setup->data().ReadEvaluation(samples.begin, samples.end,
                                        &batches[i]);
    TRIBUTARY_RETURN_IF_ERROR(batches[i].error);
  }
  TRIBUTARY_RETURN_IF_ERROR(model_.AddSlots(static_cast<int>(pieces.size())));
  std::vector<int> visits;
  for (int group = 0; group < model_.groups(); ++group) visits.push_back(group);
  Holding holding(*this, task, visits);
  std::vector<LossSums> losses(pieces.size());
  for (int group = 0; group < model_.groups(); ++group) {
    tools_.compute->Switch(Activity::kExchange);
    if (!holding.Visit(static_cast<size_t>(group))) return TaskGivenUp();
    for (size_t i = 0; i < pieces.size(); ++i) {
      tools_.compute->Begin(task.version, pieces[i]);
      tools_.compute->Switch(Activity::kEvaluate);
      TRIBUTARY_RETURN_IF_ERROR(
          model_.Evaluate(group, static_cast<int>(i), batches[i],
                          tools_.state->Weights(task.version), &losses[i]));
    }
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    tools_.report(ReportOf(task.version, pieces[i], losses[i]));
  }
  return absl::OkStatus();
}

}  // namespace tributary

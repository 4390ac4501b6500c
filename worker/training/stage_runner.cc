#include "worker/training/stage_runner.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/string_view.h"
#include "common/base/failpoint.h"
#include "common/base/status_macros.h"
#include "common/optimizer/optimizer.h"
#include "common/plan/memory_account.h"
#include "worker/data/batch.h"
#include "worker/exchange/stages/transfer.h"
#include "worker/nn/step_observer.h"
#include "worker/training/evaluator.h"

namespace tributary {
namespace {

// Returns the elements of these chunks.
StageSplit::Range ElementsOf(const StageSplit::Range& chunks,
                             const ArenaLayout& layout) {
  return {
      chunks.begin * layout.chunk_elements(),
      std::min(chunks.end * layout.chunk_elements(), layout.arena_elements())};
}

// Waits for all weights that the worker's stages read. Returns false if the
// task must be given up.
bool AwaitWeights(const TaskWeights& weights, const StagePart& part,
                  const ArenaLayout& layout) {
  for (int s = part.begin_stage; s < part.end_stage; ++s) {
    for (const StageSplit::Range& chunks : part.split->stages[s].read_chunks) {
      const StageSplit::Range read = ElementsOf(chunks, layout);
      if (!weights.Await(read.begin, read.end)) return false;
    }
  }
  return true;
}

MemoryAccount MemoryOf(const StagePart& part, const TrainingSetup& setup,
                       int micro_batches, bool shares_memory) {
  const ArenaLayout& layout = setup.layout();
  const auto bytes_of = [&layout](const StageSplit::Range& chunks) {
    int64_t elements = 0;
    for (int64_t chunk = chunks.begin; chunk < chunks.end; ++chunk) {
      elements += layout.ChunkSize(static_cast<int>(chunk));
    }
    return elements * static_cast<int64_t>(sizeof(float));
  };
  int64_t read = 0;
  int64_t written = 0;
  for (int s = part.begin_stage; s < part.end_stage; ++s) {
    const StageSplit::Stage& stage = part.split->stages[s];
    for (const auto& chunks : stage.read_chunks) read += bytes_of(chunks);
    written += bytes_of(stage.chunks);
  }
  const int slots =
      SlotsOf({static_cast<int>(part.split->stages.size()), part.begin_stage},
              part.schedule, micro_batches);
  MemoryAccount memory;
  if (!shares_memory) memory.set_weights(2 * read);
  // Micro-batches in flight take gradient arenas like threads.
  memory.set_gradients(GradientArenas(micro_batches, slots) * written);
  memory.set_activations(part.model->structure().plan.BytesOf(slots));
  if (setup.traits().local_sgd) {
    // Each micro-batch has weights, a gradient and an optimizer of its own.
    const auto optimizer = Optimizer::Create(setup.job().optimizer());
    const int state = optimizer.ok() ? (*optimizer)->slots() : 0;
    memory.set_weights(memory.weights() + micro_batches * 2 * read);
    memory.set_optimizer(micro_batches * state * written);
    memory.set_gradients(micro_batches * read);
  }
  if (!setup.traits().servers_update) {
    const auto optimizer = Optimizer::Create(setup.job().optimizer());
    const int64_t state = optimizer.ok() ? (*optimizer)->slots() : 0;
    // The members with these stages reduce the chunks in turn.
    const int64_t replicas =
        (setup.job().batch().micro_batches() + micro_batches - 1) /
        micro_batches;
    memory.set_optimizer(setup.traits().workers_shard_optimizer
                             ? state * written / replicas
                             : state * read);
    memory.set_copies((1 + state) * written / replicas);
  }
  return memory;
}

}  // namespace

StageRunner::StageRunner(Options options)
    : options_(std::move(options)),
      part_(options_.part),
      model_(*part_.model),
      messages_(&part_, options_.compute) {
  const std::vector<StageSplit::Stage>& stages = part_.split->stages;
  chunks_ = {stages[part_.begin_stage].chunks.begin,
             stages[part_.end_stage - 1].chunks.end};
  if (!messages_.received_parts().empty() &&
      model_.structure().part.separate_weights &&
      !model_.backward_needs_parts()) {
    part_receiver_ = std::make_unique<PartReceiver>(
        static_cast<int>(messages_.received_parts().size()));
  }
  options_.compute->ShowStages(part_.begin_stage, part_.end_stage);
}

absl::Status StageRunner::Initialize() {
  const Buffer arena = options_.exchange->TakeArena();
  const StageSplit::Range elements =
      ElementsOf(chunks_, options_.setup->layout());
  if (elements.begin < elements.end) {
    TRIBUTARY_RETURN_IF_ERROR(options_.setup->MakeInitialElements(
        elements.begin, elements.end, arena.get()));
  }
  options_.exchange->PushInitial(arena);
  return absl::OkStatus();
}

int SlotsOf(const PipelinePlace& place, PipelineSchedule schedule,
            int micro_batches) {
  const StageLimits limits =
      TraitsOf(schedule).limits({place.workers, place.worker, micro_batches});
  return std::min(limits.in_flight + limits.delayed, micro_batches);
}

MemoryAccount StageRunner::Memory(int micro_batches, bool shares_memory) const {
  return MemoryOf(part_, *options_.setup, micro_batches, shares_memory);
}

absl::Status StageRunner::Train(const Task& task, StepGradients* step) {
  const PipelinePlace place = part_.place(task.generation);
  const int count = static_cast<int>(task.items.size());
  model_.RenewWeights();
  TRIBUTARY_RETURN_IF_ERROR(
      model_.AddSlots(SlotsOf(place, part_.schedule, count)));
  const TaskWeights weights(task, options_.state, *options_.exchange,
                            /*device=*/nullptr, options_.compute);
  std::vector<InFlight> items;
  const absl::Cleanup end = [&] {
    // Other users of the device expect the random base to be unset.
    options_.setup->device(/*thread=*/0)->SetRandomBase({});
    part_.transfers->EndStep(task.generation, task.version);
    // Receives into `items`.
    if (part_receiver_ != nullptr) part_receiver_->Discard();
  };
  return options_.setup->traits().local_sgd
             ? TrainRound(task, weights, step, &items)
             : TrainStep(task, task.version, weights, step, &items);
}

absl::Status StageRunner::TrainRound(const Task& task,
                                     const TaskWeights& weights,
                                     StepGradients* round,
                                     std::vector<InFlight>* items) {
  options_.compute->Switch(Activity::kExchange);
  if (!AwaitWeights(weights, part_, options_.setup->layout()))
    return TaskGivenUp();
  while (learners_.size() < task.items.size()) {
    TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<StageLearner> learner,
                               StageLearner::Create(*options_.setup, chunks_));
    learners_.push_back(std::move(learner));
  }
  for (size_t i = 0; i < task.items.size(); ++i) {
    learners_[i]->Begin(task, *options_.state, options_.exchange->TakeArena());
  }
  const Rounds& rounds = options_.setup->rounds();
  const int64_t end = rounds.StepsAfter(task.version + 1);
  for (int64_t step = rounds.StepsAfter(task.version); step < end; ++step) {
    for (const int64_t number : task.items) {
      if (!model_.reads_batches() || step + 1 == end) break;
      options_.batches->Expect(step + 1, static_cast<int>(number));
    }
    TRIBUTARY_RETURN_IF_ERROR(TrainStep(task, step, weights, round, items));
  }
  for (size_t i = 0; i < task.items.size(); ++i) {
    learners_[i]->Contribute(static_cast<int>(task.items[i]), round);
  }
  return absl::OkStatus();
}

absl::Status StageRunner::TrainStep(const Task& task, int64_t step,
                                    const TaskWeights& weights,
                                    StepGradients* gradients,
                                    std::vector<InFlight>* items) {
  const TrainingSetup& setup = *options_.setup;
  const PipelinePlace place = part_.place(task.generation);
  // Schedules count the micro-batches with samples from 0.
  items->clear();
  for (size_t i = 0; i < task.items.size(); ++i) {
    InFlight item;
    item.number = static_cast<int>(task.items[i]);
    item.step = step;
    item.transfer = static_cast<int>(
        item.number + (step - setup.rounds().StepsAfter(task.version)) *
                          setup.job().batch().micro_batches());
    if (setup.traits().local_sgd) item.learner = learners_[i].get();
    item.samples = static_cast<int64_t>(
        setup.sampler().MicroBatchOf(step, item.number).indexes.size());
    if (item.samples > 0) {
      items->push_back(std::move(item));
    } else if (item.learner != nullptr) {
      item.learner->SkipStep();
    } else {
      TRIBUTARY_RETURN_IF_ERROR(ComputeEmpty(&item, weights, gradients));
    }
  }
  slots_ = SlotsOf(place, part_.schedule, static_cast<int>(task.items.size()));
  free_slots_.clear();
  for (int slot = slots_ - 1; slot >= 0; --slot) free_slots_.push_back(slot);
  waiting_.clear();
  for (const PipelineOperation& operation : StageOrder(
           part_.schedule,
           {place.workers, place.worker, static_cast<int>(items->size())})) {
    TRIBUTARY_RETURN_IF_ERROR(FinishWaiting(task, /*all=*/false));
    TRIBUTARY_RETURN_IF_ERROR(Run(task, operation.pass,
                                  &(*items)[operation.micro_batch], weights,
                                  gradients));
  }
  return FinishWaiting(task, /*all=*/true);
}

void StageRunner::BeginItem(const Task& task, int64_t number) {
  // What the thread did until now was for another item.
  options_.compute->Switch(Activity::kIdle);
  options_.compute->Begin(task.version, number);
}

absl::Status StageRunner::Run(const Task& task, PipelinePass pass,
                              InFlight* item, const TaskWeights& weights,
                              StepGradients* step) {
  BeginItem(task, item->number);
  switch (pass) {
    case PipelinePass::kForward:
      return Forward(task, item, weights, step);
    case PipelinePass::kBackwardInput:
      return Backward(task, item);
    case PipelinePass::kBackward:
      TRIBUTARY_RETURN_IF_ERROR(Backward(task, item));
      return Finish(task, item);
    case PipelinePass::kBackwardWeights:
      return Weights(task, item);
  }
  return absl::OkStatus();
}

absl::Status StageRunner::Weights(const Task& task, InFlight* item) {
  options_.compute->Switch(Activity::kBackward, kWeightsSpan);
  if (part_receiver_ == nullptr) {
    model_.Weights(item->slot);
    return Finish(task, item);
  }
  model_.BeginWeights(item->slot);
  waiting_.push_back(item);
  part_receiver_->Add([this, &task, item](int route) {
    return messages_.ReceivePart(task, messages_.received_parts()[route], *item,
                                 item->gradients->data());
  });
  return absl::OkStatus();
}

absl::Status StageRunner::FinishWaiting(const Task& task, bool all) {
  while (!waiting_.empty()) {
    if (all) {
      options_.compute->Switch(Activity::kExchange,
                               WaitName(StageTransfer::WEIGHT_GRADIENT));
    }
    const std::optional<absl::Status> received = part_receiver_->Take(all);
    if (!received.has_value()) break;
    TRIBUTARY_RETURN_IF_ERROR(*received);
    InFlight* const item = waiting_.front();
    waiting_.pop_front();
    BeginItem(task, item->number);
    options_.compute->Switch(Activity::kBackward, kWeightsSpan);
    model_.FinishWeights(item->slot);
    TRIBUTARY_RETURN_IF_ERROR(Finish(task, item));
  }
  return absl::OkStatus();
}

absl::Status StageRunner::Forward(const Task& task, InFlight* item,
                                  const TaskWeights& weights,
                                  StepGradients* step) {
  if (model_.reads_batches()) {
    options_.compute->Switch(Activity::kData);
    item->batch =
        options_.batches->Take(/*thread=*/0, item->step, item->number);
    TRIBUTARY_RETURN_IF_ERROR(item->batch->error);
  }
  ReceivedTransfer received;
  if (part_.begin_stage == 0) {
    item->sample_count = SampleCountOf(*item->batch);
  } else {
    options_.compute->Switch(Activity::kExchange,
                             WaitName(StageTransfer::ACTIVATION));
    TRIBUTARY_ASSIGN_OR_RETURN(
        received,
        messages_.Receive(task, part_.begin_stage - 1, item->transfer,
                          part_.begin_stage - 1, StageTransfer::ACTIVATION,
                          model_.ReceivedBytes(item->samples)));
    item->sample_count = received.scalars.sample_count;
  }
  const WeightsView* read = &weights;
  if (item->learner != nullptr) {
    TRIBUTARY_RETURN_IF_ERROR(PassWeights(task, *item));
    item->learner->BeginStep(item->sample_count);
    item->gradients = item->learner->gradients();
    read = &item->learner->weights();
  } else {
    item->leaf = std::make_unique<LeafGradients>(
        item->number, item->sample_count, options_.exchange, step,
        /*device=*/nullptr, /*sums=*/nullptr, chunks_.begin, chunks_.end);
    item->gradients = item->leaf.get();
  }
  if (free_slots_.empty()) {
    // Micro-batches that wait for parts have kept their slots.
    TRIBUTARY_RETURN_IF_ERROR(model_.AddSlots(slots_ + 1));
    free_slots_.push_back(slots_++);
  }
  item->slot = free_slots_.back();
  free_slots_.pop_back();
  options_.compute->Switch(Activity::kForward);
  TRIBUTARY_RETURN_IF_ERROR(model_.Begin(
      item->slot, item->batch.get(), item->samples, received.data,
      {options_.setup->job().seed(), item->step, item->number, read,
       item->gradients, options_.compute, item->sample_count}));
  received = ReceivedTransfer();  // Its sender may use the memory again.
  if (!model_.Forward(item->slot)) return TaskGivenUp();
  if (model_.is_last()) {
    TRIBUTARY_ASSIGN_OR_RETURN(const LossSums loss, model_.Loss(item->slot));
    item->loss_sum = loss.loss;
    return absl::OkStatus();
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<absl::string_view> values,
                             model_.SentValues(item->slot));
  return messages_.Send(task, part_.end_stage, *item, part_.end_stage - 1,
                        StageTransfer::ACTIVATION, values);
}

absl::Status StageRunner::PassWeights(const Task& task, const InFlight& item) {
  StageLearner* const learner = item.learner;
  if (!learner->updated()) return absl::OkStatus();
  TRIBUTARY_RETURN_IF_ERROR(messages_.ReceiveWeights(
      task, item, [learner](int64_t begin, absl::Span<const float> values) {
        learner->Replace(begin, values);
      }));
  // Some of these may have been received.
  return messages_.SendWeights(task, item, learner->values());
}

absl::Status StageRunner::Backward(const Task& task, InFlight* item) {
  ReceivedTransfer received;
  if (!model_.is_last()) {
    options_.compute->Switch(Activity::kExchange,
                             WaitName(StageTransfer::ACTIVATION_GRADIENT));
    TRIBUTARY_ASSIGN_OR_RETURN(
        received, messages_.Receive(task, part_.end_stage, item->transfer,
                                    part_.end_stage - 1,
                                    StageTransfer::ACTIVATION_GRADIENT,
                                    model_.SentBytes(item->samples)));
    item->loss_sum = received.scalars.loss_sum;
    for (const int part : messages_.received_parts()) {
      if (part_receiver_ != nullptr) break;
      TRIBUTARY_RETURN_IF_ERROR(
          messages_.ReceivePart(task, part, *item, item->gradients->data()));
    }
  }
  options_.compute->Switch(Activity::kBackward);
  model_.Backward(item->slot, received.data);
  received = ReceivedTransfer();
  if (part_.begin_stage == 0) return absl::OkStatus();
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<absl::string_view> gradients,
                             model_.SentGradients(item->slot));
  return messages_.Send(task, part_.begin_stage - 1, *item,
                        part_.begin_stage - 1,
                        StageTransfer::ACTIVATION_GRADIENT, gradients);
}

absl::Status StageRunner::Finish(const Task& task, InFlight* item) {
  model_.End(item->slot);
  TRIBUTARY_RETURN_IF_ERROR(
      messages_.SendParts(task, *item, item->gradients->data()));
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("W6"));
  if (item->learner != nullptr) {
    item->learner->EndStep(item->loss_sum);
  } else {
    TRIBUTARY_RETURN_IF_ERROR(item->leaf->Finish(item->loss_sum));
    item->leaf.reset();
  }
  item->batch.reset();
  free_slots_.push_back(item->slot);
  options_.compute->Switch(Activity::kIdle);
  return absl::OkStatus();
}

// Every worker knows that the micro-batch is empty, so nothing is sent.
absl::Status StageRunner::ComputeEmpty(InFlight* item,
                                       const TaskWeights& weights,
                                       StepGradients* step) {
  if (!AwaitWeights(weights, part_, options_.setup->layout()))
    return TaskGivenUp();
  LeafGradients gradients(item->number, /*sample_count=*/0, options_.exchange,
                          step, /*device=*/nullptr, /*sums=*/nullptr,
                          chunks_.begin, chunks_.end);
  const StageSplit::Range elements =
      ElementsOf(chunks_, options_.setup->layout());
  if (elements.begin < elements.end) {
    std::fill(gradients.data() + elements.begin,
              gradients.data() + elements.end, 0);
  }
  return gradients.Finish(/*loss_sum=*/0);
}

absl::Status StageRunner::Evaluate(const Task& task) {
  TRIBUTARY_RETURN_IF_ERROR(model_.AddSlots(1));
  model_.RenewWeights();
  const TaskWeights weights(task, options_.state, *options_.exchange,
                            /*device=*/nullptr, /*observer=*/nullptr);
  if (!AwaitWeights(weights, part_, options_.setup->layout()))
    return TaskGivenUp();
  for (const int64_t piece : task.items) {
    BeginItem(task, piece);
    TRIBUTARY_RETURN_IF_ERROR(EvaluatePiece(task, piece, weights.data()));
  }
  return absl::OkStatus();
}

absl::Status StageRunner::EvaluatePiece(const Task& task, int64_t piece,
                                        const float* weights) {
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("W12"));
  options_.compute->Switch(Activity::kEvaluate);
  const EvaluatedSamples samples(*options_.setup, piece);
  Batch batch;
  if (model_.reads_batches()) {
    options_.setup->data().ReadEvaluation(samples.begin, samples.end, &batch);
    TRIBUTARY_RETURN_IF_ERROR(batch.error);
  }
  InFlight item;
  item.number = item.transfer = static_cast<int>(piece);
  item.samples = samples.end - samples.begin;
  ReceivedTransfer received;
  if (part_.begin_stage > 0) {
    options_.compute->Switch(Activity::kExchange,
                             WaitName(StageTransfer::EVALUATION));
    TRIBUTARY_ASSIGN_OR_RETURN(
        received,
        messages_.Receive(task, part_.begin_stage - 1, item.number,
                          part_.begin_stage - 1, StageTransfer::EVALUATION,
                          model_.ReceivedBytes(item.samples)));
    options_.compute->Switch(Activity::kEvaluate);
  }
  TRIBUTARY_RETURN_IF_ERROR(
      model_.Evaluate(model_.reads_batches() ? &batch : nullptr, item.samples,
                      received.data, weights));
  received = ReceivedTransfer();
  if (!model_.is_last()) {
    TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<absl::string_view> values,
                               model_.SentEvaluation());
    return messages_.Send(task, part_.end_stage, item, part_.end_stage - 1,
                          StageTransfer::EVALUATION, values);
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const LossSums sums, model_.EvaluationLoss());
  options_.report(ReportOf(task.version, piece, sums));
  return absl::OkStatus();
}

}  // namespace tributary

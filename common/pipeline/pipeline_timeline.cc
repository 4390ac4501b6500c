#include "common/pipeline/pipeline_timeline.h"

#include <algorithm>
#include <limits>

namespace tributary {
namespace {

// One direction of a boundary. Micro-batches pass it in ascending order.
struct BoundaryQueue {
  double seconds = 0;
  double latency = 0;
  double link_free_at = 0;
  std::vector<double> arrivals;  // Indexed by micro-batch.
  std::vector<double> taken;     // When the receiver consumed it; likewise.
};

double SecondsOf(PipelinePass pass, const PassSeconds& stage) {
  switch (pass) {
    case PipelinePass::kForward:
      return stage.forward;
    case PipelinePass::kBackward:
      return stage.backward_input + stage.backward_weights;
    case PipelinePass::kBackwardInput:
      return stage.backward_input;
    case PipelinePass::kBackwardWeights:
      return stage.backward_weights;
  }
  return 0;
}

class StepSimulation {
 public:
  explicit StepSimulation(const PipelineStep& step)
      : step_(step),
        stages_(static_cast<int>(step.stages.size())),
        activations_(stages_),
        gradients_(stages_) {
    for (size_t i = 0; i < step.boundaries.size(); ++i) {
      const BoundarySeconds& boundary = step.boundaries[i];
      activations_[i].seconds = boundary.forward;
      gradients_[i].seconds = boundary.backward;
      activations_[i].latency = gradients_[i].latency = boundary.latency;
    }
  }

  // Gives the operations their times, each after those that it waits for.
  PipelineTimeline Run() {
    PipelineTimeline timeline;
    timeline.stages.resize(stages_);
    std::vector<std::vector<PipelineOperation>> orders;
    size_t missing = 0;
    for (int stage = 0; stage < stages_; ++stage) {
      orders.push_back(
          StageOrder(step_.schedule, {stages_, stage, step_.micro_batches}));
      missing += orders.back().size();
    }
    for (bool progress = true; progress;) {
      progress = false;
      for (int stage = 0; stage < stages_; ++stage) {
        std::vector<TimedOperation>& done = timeline.stages[stage].operations;
        while (done.size() < orders[stage].size() &&
               Append(stage, orders[stage][done.size()], &done)) {
          progress = true;
          --missing;
        }
      }
    }
    if (missing > 0) {
      timeline.seconds = std::numeric_limits<double>::infinity();
    } else {
      Summarize(&timeline);
    }
    return timeline;
  }

 private:
  // Returns the queue through which a pass sends at a boundary. Returns nullptr
  // if it sends nothing, or there is no such boundary.
  BoundaryQueue* QueueAt(int boundary, PipelinePass pass) {
    if (boundary < 0 || boundary + 1 >= stages_) return nullptr;
    switch (pass) {
      case PipelinePass::kForward:
        return &activations_[boundary];
      case PipelinePass::kBackward:
      case PipelinePass::kBackwardInput:
        return &gradients_[boundary];
      case PipelinePass::kBackwardWeights:
        return nullptr;
    }
    return nullptr;
  }

  // Appends the operation to `done`, the operations of its stage so far.
  // Returns false if something that it waits for has no time yet.
  bool Append(int stage, const PipelineOperation& operation,
              std::vector<TimedOperation>* done) {
    const bool forward = operation.pass == PipelinePass::kForward;
    BoundaryQueue* const input =
        QueueAt(forward ? stage - 1 : stage, operation.pass);
    BoundaryQueue* const output =
        QueueAt(forward ? stage : stage - 1, operation.pass);
    const int micro_batch = operation.micro_batch;
    // The micro-batch whose place in the output queue this one takes.
    const int before = micro_batch - step_.queue_capacity;
    double begin = done->empty() ? 0 : done->back().end;
    if (input != nullptr) {
      if (micro_batch >= static_cast<int>(input->arrivals.size())) return false;
      begin = std::max(begin, input->arrivals[micro_batch]);
    }
    if (output != nullptr && before >= 0) {
      if (before >= static_cast<int>(output->taken.size())) return false;
      begin = std::max(begin, output->taken[before]);
    }
    const double end = begin + SecondsOf(operation.pass, step_.stages[stage]);
    done->push_back({operation, begin, end});
    if (input != nullptr) input->taken.push_back(begin);
    if (output != nullptr) {
      output->link_free_at =
          std::max(output->link_free_at, end) + output->seconds;
      output->arrivals.push_back(output->link_free_at + output->latency);
    }
    return true;
  }

  static void Summarize(PipelineTimeline* timeline) {
    for (const StageTimeline& stage : timeline->stages)
      if (!stage.operations.empty())
        timeline->seconds =
            std::max(timeline->seconds, stage.operations.back().end);
    double idle = 0;
    for (StageTimeline& stage : timeline->stages) {
      stage.idle_seconds = timeline->seconds;
      for (const TimedOperation& operation : stage.operations)
        stage.idle_seconds -= operation.end - operation.begin;
      idle += stage.idle_seconds;
    }
    if (timeline->seconds > 0)
      timeline->bubble = idle / (timeline->seconds * timeline->stages.size());
  }

  const PipelineStep& step_;
  const int stages_;
  std::vector<BoundaryQueue> activations_;  // Indexed by boundary.
  std::vector<BoundaryQueue> gradients_;
};

}  // namespace

PipelineTimeline SimulatePipeline(const PipelineStep& step) {
  return StepSimulation(step).Run();
}

}  // namespace tributary

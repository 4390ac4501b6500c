#include "worker/nn/network_pass.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/base/crash_context.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/numerics/philox.h"

namespace tributary {

absl::StatusOr<std::unique_ptr<NetworkPass>> NetworkPass::Create(
    const NetworkStructure* structure, Device* device, DeviceInputs* inputs,
    WeightCopies* copies, void* shared) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      PassMemory memory,
      PassMemory::Create(structure, device, inputs, copies, shared));
  return std::unique_ptr<NetworkPass>(
      new NetworkPass(structure, device, std::move(memory)));
}

NetworkPass::NetworkPass(const NetworkStructure* structure, Device* device,
                         PassMemory memory)
    : structure_(*structure),
      device_(device),
      memory_(std::move(memory)),
      captures_(device, structure->segments.size()) {}

void NetworkPass::Begin(const MicroBatchInput& input,
                        const MicroBatch& micro_batch) {
  micro_batch_ = micro_batch;
  memory_.CopyIn(input);
  float* const gradients = micro_batch.gradients->data();
  for (const NetworkStructure::Range& gap : structure_.gaps) {
    device_->Zero(gradients + gap.begin, gap.end - gap.begin);
  }
  SelectRandomNumbers();
  const LossSpec& loss = structure_.graph.loss();
  call_ = LayerCall();
  call_.device = device_;
  call_.samples = input.samples;
  call_.training = true;
  call_.sample_count = micro_batch.sample_count >= 0
                           ? micro_batch.sample_count
                           : loss.CountedRows(input.samples, input.target);
  const SegmentCaptures::Kind kind = {micro_batch.seed, input.samples,
                                      micro_batch.weights->data(), gradients};
  // Gradients of statistics are multiplied by the sample count, which is
  // captured.
  const bool all_count = call_.sample_count == input.samples * loss.rows;
  captures_.Begin(all_count ? &kind : nullptr);
}

void NetworkPass::SelectRandomNumbers() const {
  device_->SetRandomBase({static_cast<uint32_t>(micro_batch_.step),
                          static_cast<uint32_t>(micro_batch_.number) *
                              NetworkStructure::kStreamsPerMicroBatch});
}

template <typename Work>
void NetworkPass::RunLayer(int layer, const Work& run) {
  call_.stream = {micro_batch_.seed, RandomPurpose::kDropout, 0,
                  static_cast<uint32_t>(layer)};
  StepObserver* const observer = micro_batch_.observer;
  if (observer == nullptr || !observer->observes_layers()) return run();
  const absl::Time begin = MonotonicNow();
  run();
  observer->OnLayer(layer, begin, MonotonicNow());
}

bool NetworkPass::Forward(int begin, int end) {
  const WeightsView& weights = *micro_batch_.weights;
  for (size_t s = 0; s < structure_.segments.size(); ++s) {
    const NetworkStructure::Segment& segment = structure_.segments[s];
    if (segment.begin < begin || segment.end > end) continue;
    for (const NetworkStructure::Range& range : segment.weights) {
      if (!weights.Await(range.begin, range.end)) return false;
    }
    if (captures_.active()) {
      // Captured operations only read the copies of the weights.
      for (int i = segment.begin; i < segment.end; ++i) {
        memory_.TensorsOf(i, Places::kForward, weights.data());
      }
    }
    captures_.Run(SegmentCaptures::Pass::kForward, s, [&] {
      for (int i = segment.begin; i < segment.end; ++i) {
        RunLayer(i, [&] {
          ForwardLayer(i, Places::kForward, call_, weights.data());
        });
      }
    });
  }
  return true;
}

void NetworkPass::Backward(int begin, int end) {
  const NetworkPlan& plan = structure_.plan;
  for (size_t s = structure_.segments.size(); s-- > 0;) {
    const NetworkStructure::Segment& segment = structure_.segments[s];
    if (segment.begin < begin || segment.end > end) continue;
    captures_.Run(SegmentCaptures::Pass::kBackward, s, [&] {
      const auto group =
          std::find(plan.groups.begin(), plan.groups.end(), segment.end);
      if (group != plan.groups.end()) {
        ForwardAgain(static_cast<int>(group - plan.groups.begin()));
      }
      for (int i = segment.end - 1; i >= segment.begin; --i) {
        const NetworkPlan::Node& planned = plan.nodes[i];
        if (!planned.has_backward) continue;
        if (planned.separate_weights && !planned.computes_input_gradient()) {
          continue;
        }
        RunLayer(i, [&] {
          BackwardLayer(i, call_, micro_batch_.weights->data(),
                        micro_batch_.gradients->data());
        });
      }
      if (!structure_.part.separate_weights) ZeroFrozen(segment);
    });
    if (!structure_.part.separate_weights) Report(segment);
  }
}

void NetworkPass::ForwardAgain(int group) {
  const NetworkPlan& plan = structure_.plan;
  const int begin = group == 0 ? plan.begin : plan.groups[group - 1];
  for (int i = begin; i < plan.groups[group]; ++i) {
    if (!plan.nodes[i].again) continue;
    RunLayer(i, [&] {
      ForwardLayer(i, Places::kBackward, call_, micro_batch_.weights->data());
    });
  }
}

void NetworkPass::Weights() {
  for (size_t s = structure_.segments.size(); s-- > 0;) {
    const NetworkStructure::Segment& segment = structure_.segments[s];
    captures_.Run(SegmentCaptures::Pass::kWeights, s, [&] {
      WeightsOfSegment(segment, /*awaiting=*/false);
      WeightsOfSegment(segment, /*awaiting=*/true);
      ZeroFrozen(segment);
    });
    Report(segment);
  }
}

void NetworkPass::BeginWeights() {
  for (size_t s = structure_.segments.size(); s-- > 0;) {
    WeightsOfSegment(structure_.segments[s], /*awaiting=*/false);
  }
}

void NetworkPass::FinishWeights() {
  for (size_t s = structure_.segments.size(); s-- > 0;) {
    const NetworkStructure::Segment& segment = structure_.segments[s];
    WeightsOfSegment(segment, /*awaiting=*/true);
    ZeroFrozen(segment);
    Report(segment);
  }
}

void NetworkPass::WeightsOfSegment(const NetworkStructure::Segment& segment,
                                   bool awaiting) {
  for (int i = segment.end - 1; i >= segment.begin; --i) {
    const NetworkPlan::Node& planned = structure_.plan.nodes[i];
    if (!planned.has_backward || !planned.separate_weights) continue;
    if (planned.awaits_later_parts != awaiting) continue;
    RunLayer(i, [&] {
      WeightsOfLayer(i, call_, micro_batch_.weights->data(),
                     micro_batch_.gradients->data());
    });
  }
}

void NetworkPass::ZeroFrozen(const NetworkStructure::Segment& segment) const {
  for (const NetworkStructure::Range& range : segment.frozen) {
    device_->Zero(micro_batch_.gradients->data() + range.begin,
                  range.end - range.begin);
  }
}

void NetworkPass::Report(const NetworkStructure::Segment& segment) const {
  if (segment.ready_parameter < 0) return;
  micro_batch_.gradients->Ready(
      structure_.layout.parameters()[segment.ready_parameter].offset);
}

void NetworkPass::BeginLoss() {
  const NetworkPlan& plan = structure_.plan;
  loss_.Begin(device_, structure_.graph.loss(), call_.samples,
              memory_.RealAt(plan.loss_input), memory_.At(plan.target),
              memory_.RealAt(plan.loss_gradient));
}

absl::StatusOr<LossSums> NetworkPass::AwaitLoss() {
  TRIBUTARY_ASSIGN_OR_RETURN(const Loss loss, loss_.Await());
  return LossSums{loss.sum, loss.correct, loss.counted};
}

void NetworkPass::BeginEvaluation(const MicroBatchInput& input) {
  memory_.CopyIn(input);
}

const Real* NetworkPass::Evaluate(int64_t samples, const float* weights) {
  LayerCall call;
  call.device = device_;
  call.samples = samples;
  for (int i = structure_.plan.begin; i < structure_.plan.end; ++i) {
    ForwardLayer(i, Places::kEvaluation, call, weights);
  }
  return memory_.RealAt(structure_.plan.evaluation_loss_input);
}

void NetworkPass::BeginEvaluationLoss(int64_t samples) {
  LossSpec loss = structure_.graph.loss();
  loss.smoothing = 0;
  loss_.Begin(device_, loss, samples,
              memory_.RealAt(structure_.plan.evaluation_loss_input),
              memory_.At(structure_.plan.target), /*gradient=*/nullptr);
}

void NetworkPass::ForwardLayer(int number, Places places, const LayerCall& call,
                               const float* weights) const {
  const Graph::Node& layer = structure_.graph.nodes()[number];
  if (!call.training && layer.spec.identity_in_evaluation) return;
  const NetworkPlan::Node& planned = structure_.plan.nodes[number];
  if (places == Places::kBackward ? planned.again_elsewhere
                                  : planned.forward_elsewhere) {
    return;
  }
  const CrashScopeOfLayer crash_scope(layer.name.c_str(), /*backward=*/false);
  layer.layer->Forward(call, memory_.TensorsOf(number, places, weights));
}

void NetworkPass::BackwardLayer(int number, const LayerCall& call,
                                const float* weights, float* gradients) const {
  const Graph::Node& layer = structure_.graph.nodes()[number];
  const NetworkPlan::Node& planned = structure_.plan.nodes[number];
  LayerTensors tensors = memory_.TensorsOf(number, Places::kBackward, weights);
  tensors.output_gradient = memory_.RealAt(planned.output_gradient);
  tensors.accumulate = planned.accumulate;
  tensors.gelu_input = memory_.RealAt(planned.gelu_input);
  for (int i = 0; i < kMaxLayerInputs; ++i) {
    tensors.input_gradients[i] =
        memory_.RealAt(planned.scratch[i] >= 0 ? planned.scratch[i]
                                               : planned.input_gradients[i]);
  }
  if (!planned.separate_weights) {
    memory_.SetWeightGradients(number, gradients, &tensors);
  }
  const CrashScopeOfLayer crash_scope(layer.name.c_str(), /*backward=*/true);
  layer.layer->Backward(call, tensors);
  for (size_t i = 0; i < layer.inputs.size(); ++i) {
    if (planned.scratch[i] < 0) continue;
    device_->ops().elementwise->Add(
        {call.samples * layer.spec.inputs[i],
         memory_.RealAt(planned.scratch[i]),
         memory_.RealAt(planned.input_gradients[i])});
  }
}

void NetworkPass::WeightsOfLayer(int number, const LayerCall& call,
                                 const float* weights, float* gradients) const {
  const Graph::Node& layer = structure_.graph.nodes()[number];
  LayerTensors tensors = memory_.TensorsOf(number, Places::kBackward, weights);
  tensors.output_gradient =
      memory_.RealAt(structure_.plan.nodes[number].output_gradient);
  memory_.SetWeightGradients(number, gradients, &tensors);
  const CrashScopeOfLayer crash_scope(layer.name.c_str(), /*backward=*/true);
  layer.layer->Backward(call, tensors);
}

}  // namespace tributary

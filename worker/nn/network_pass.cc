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
      Device::Memory memory,
      device->Allocate(static_cast<size_t>(structure->plan.kept_bytes)));
  return std::unique_ptr<NetworkPass>(new NetworkPass(
      structure, device, inputs, copies, std::move(memory), shared));
}

NetworkPass::NetworkPass(const NetworkStructure* structure, Device* device,
                         DeviceInputs* inputs, WeightCopies* copies,
                         Device::Memory memory, void* shared)
    : structure_(*structure),
      device_(device),
      inputs_(inputs),
      copies_(copies),
      memory_(std::move(memory)),
      shared_(static_cast<char*>(shared)),
      captures_(device, structure->segments.size()) {
  CopyConstants();
}

void NetworkPass::CopyConstants() const {
  for (int i = structure_.plan.begin; i < structure_.plan.end; ++i) {
    const std::vector<float>& constants =
        structure_.graph.nodes()[i].spec.constants;
    if (constants.empty()) continue;
    device_->CopyFromHost(At(structure_.plan.nodes[i].constants),
                          constants.data(), constants.size() * sizeof(float));
  }
}

void NetworkPass::Begin(const MicroBatchInput& input,
                        const MicroBatch& micro_batch) {
  micro_batch_ = micro_batch;
  CopyIn(input);
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
        TensorsOf(i, Places::kForward, weights.data());
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
              RealAt(plan.loss_input), At(plan.target),
              RealAt(plan.loss_gradient));
}

absl::StatusOr<LossSums> NetworkPass::AwaitLoss() {
  TRIBUTARY_ASSIGN_OR_RETURN(const Loss loss, loss_.Await());
  return LossSums{loss.sum, loss.correct, loss.counted};
}

void NetworkPass::BeginEvaluation(const MicroBatchInput& input) {
  CopyIn(input);
}

const Real* NetworkPass::Evaluate(int64_t samples, const float* weights) {
  LayerCall call;
  call.device = device_;
  call.samples = samples;
  for (int i = structure_.plan.begin; i < structure_.plan.end; ++i) {
    ForwardLayer(i, Places::kEvaluation, call, weights);
  }
  return RealAt(structure_.plan.evaluation_loss_input);
}

void NetworkPass::BeginEvaluationLoss(int64_t samples) {
  LossSpec loss = structure_.graph.loss();
  loss.smoothing = 0;
  loss_.Begin(device_, loss, samples,
              RealAt(structure_.plan.evaluation_loss_input),
              At(structure_.plan.target), /*gradient=*/nullptr);
}

void* NetworkPass::At(int64_t place) const {
  const int64_t kept = structure_.plan.kept_bytes;
  return place < kept ? static_cast<char*>(memory_.get()) + place
                      : shared_ + (place - kept);
}

void NetworkPass::CopyIn(const MicroBatchInput& input) {
  const NetworkPlan& plan = structure_.plan;
  if (plan.input < 0 && plan.target < 0) return;
  if (inputs_ != nullptr) {
    if (!input.prefetched) inputs_->Bring(input);
    TakePrefetched(input);
    return;
  }
  const int64_t elements = input.samples * structure_.graph.values()[0];
  if (plan.input >= 0) {
    device_->CopyFromHost(At(plan.input), input.input,
                          static_cast<size_t>(elements) * sizeof(float));
  }
  if (plan.input_value != plan.input) {
    device_->ops().elementwise->Round(
        {elements, static_cast<const float*>(At(plan.input)),
         RealAt(plan.input_value)});
  }
  if (input.target == nullptr || plan.target < 0) return;
  device_->CopyFromHost(
      At(plan.target), input.target,
      static_cast<size_t>(input.samples *
                          structure_.graph.loss().TargetElements()) *
          sizeof(float));
}

void NetworkPass::TakePrefetched(const MicroBatchInput& input) {
  const NetworkPlan& plan = structure_.plan;
  // Copy is untyped: a four-byte host element is one or two Reals.
  const int64_t reals = int64_t{sizeof(float)} / device_->real_bytes();
  const int64_t elements = input.samples * structure_.graph.values()[0];
  inputs_->Await();
  ElementwiseOps& ops = *device_->ops().elementwise;
  if (plan.input_value != plan.input) {
    ops.Round({elements, static_cast<const float*>(inputs_->input()),
               RealAt(plan.input_value)});
  } else if (plan.input >= 0) {
    ops.Copy({reals * elements, static_cast<const Real*>(inputs_->input()),
              RealAt(plan.input)});
  }
  if (plan.target >= 0) {
    // Without targets the copied bytes are unused.
    ops.Copy({reals * input.samples * structure_.graph.loss().TargetElements(),
              static_cast<const Real*>(inputs_->target()),
              RealAt(plan.target)});
  }
  inputs_->Release();
}

LayerTensors NetworkPass::TensorsOf(int number, Places places,
                                    const float* weights) const {
  const NetworkPlan& plan = structure_.plan;
  const NetworkPlan::Node& planned = plan.nodes[number];
  const auto at =
      [places](
          const NetworkPlan::Node& node) -> const NetworkPlan::Activations& {
    return places == Places::kBackward ? node.backward : node.forward;
  };
  const auto inputs_of = [&](const NetworkPlan::Node& node)
      -> const std::array<int64_t, kMaxLayerInputs>& {
    return places == Places::kEvaluation ? node.evaluation_inputs
                                         : at(node).inputs;
  };
  LayerTensors tensors;
  for (int i = 0; i < kMaxLayerInputs; ++i) {
    tensors.inputs[i] = RealAt(inputs_of(planned)[i]);
  }
  tensors.output = RealAt(at(planned).output);
  tensors.saved = FloatAt(at(planned).saved);
  tensors.gelu_output = RealAt(at(planned).gelu_output);
  if (planned.sum >= 0 && (places != Places::kBackward ||
                           plan.nodes[planned.sum].again_elsewhere)) {
    const NetworkPlan::Node& sum = plan.nodes[planned.sum];
    tensors.sum = RealAt(at(sum).output);
    tensors.addends = {RealAt(inputs_of(sum)[0]), RealAt(inputs_of(sum)[1])};
  }
  tensors.constants = FloatAt(planned.constants);
  const Graph::Node& layer = structure_.graph.nodes()[number];
  const std::vector<int>& parameters = layer.parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    tensors.weights[i] =
        weights + structure_.layout.parameters()[parameters[i]].offset;
  }
  if (layer.spec.product_weight) {
    tensors.product_weight =
        copies_->Get(device_, parameters[0], tensors.weights[0]);
  }
  return tensors;
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
  layer.layer->Forward(call, TensorsOf(number, places, weights));
}

void NetworkPass::SetWeightGradients(int number, float* gradients,
                                     LayerTensors* tensors) const {
  const std::vector<int>& parameters =
      structure_.graph.nodes()[number].parameters;
  tensors->accumulate_weight = structure_.plan.nodes[number].accumulate_weight;
  for (size_t i = 0; i < parameters.size(); ++i) {
    tensors->weight_gradients[i] =
        gradients + structure_.layout.parameters()[parameters[i]].offset;
  }
}

void NetworkPass::BackwardLayer(int number, const LayerCall& call,
                                const float* weights, float* gradients) const {
  const Graph::Node& layer = structure_.graph.nodes()[number];
  const NetworkPlan::Node& planned = structure_.plan.nodes[number];
  LayerTensors tensors = TensorsOf(number, Places::kBackward, weights);
  tensors.output_gradient = RealAt(planned.output_gradient);
  tensors.accumulate = planned.accumulate;
  tensors.gelu_input = RealAt(planned.gelu_input);
  for (int i = 0; i < kMaxLayerInputs; ++i) {
    tensors.input_gradients[i] =
        RealAt(planned.scratch[i] >= 0 ? planned.scratch[i]
                                       : planned.input_gradients[i]);
  }
  if (!planned.separate_weights) {
    SetWeightGradients(number, gradients, &tensors);
  }
  const CrashScopeOfLayer crash_scope(layer.name.c_str(), /*backward=*/true);
  layer.layer->Backward(call, tensors);
  for (size_t i = 0; i < layer.inputs.size(); ++i) {
    if (planned.scratch[i] < 0) continue;
    device_->ops().elementwise->Add({call.samples * layer.spec.inputs[i],
                                     RealAt(planned.scratch[i]),
                                     RealAt(planned.input_gradients[i])});
  }
}

void NetworkPass::WeightsOfLayer(int number, const LayerCall& call,
                                 const float* weights, float* gradients) const {
  const Graph::Node& layer = structure_.graph.nodes()[number];
  LayerTensors tensors = TensorsOf(number, Places::kBackward, weights);
  tensors.output_gradient =
      RealAt(structure_.plan.nodes[number].output_gradient);
  SetWeightGradients(number, gradients, &tensors);
  const CrashScopeOfLayer crash_scope(layer.name.c_str(), /*backward=*/true);
  layer.layer->Backward(call, tensors);
}

}  // namespace tributary

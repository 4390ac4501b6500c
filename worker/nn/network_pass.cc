#include "worker/nn/network_pass.h"

#include <algorithm>
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
    WeightCopies* copies) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      Device::Memory memory,
      device->Allocate(static_cast<size_t>(structure->plan.bytes)));
  return std::unique_ptr<NetworkPass>(
      new NetworkPass(structure, device, inputs, copies, std::move(memory)));
}

NetworkPass::NetworkPass(const NetworkStructure* structure, Device* device,
                         DeviceInputs* inputs, WeightCopies* copies,
                         Device::Memory memory)
    : structure_(*structure),
      device_(device),
      inputs_(inputs),
      copies_(copies),
      memory_(std::move(memory)),
      captures_(device, structure->segments.size()) {
  CopyConstants();
}

void NetworkPass::CopyConstants() const {
  for (size_t i = 0; i < structure_.graph.nodes().size(); ++i) {
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
  call_.sample_count = loss.CountedRows(input.samples, input.target);
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
        TensorsOf(i, /*training=*/true, weights.data());
      }
    }
    captures_.Run(SegmentCaptures::Direction::kForward, s, [&] {
      for (int i = segment.begin; i < segment.end; ++i) {
        RunLayer(i, [&] { ForwardLayer(i, call_, weights.data()); });
      }
    });
  }
  return true;
}

void NetworkPass::Backward(int begin, int end) {
  float* const gradients = micro_batch_.gradients->data();
  for (size_t s = structure_.segments.size(); s-- > 0;) {
    const NetworkStructure::Segment& segment = structure_.segments[s];
    if (segment.begin < begin || segment.end > end) continue;
    captures_.Run(SegmentCaptures::Direction::kBackward, s, [&] {
      for (int i = segment.end - 1; i >= segment.begin; --i) {
        if (!structure_.plan.nodes[i].backward) continue;
        RunLayer(i, [&] {
          BackwardLayer(i, call_, micro_batch_.weights->data(), gradients);
        });
      }
      for (const NetworkStructure::Range& range : segment.frozen) {
        device_->Zero(gradients + range.begin, range.end - range.begin);
      }
    });
    if (segment.ready_parameter >= 0) {
      micro_batch_.gradients->Ready(
          structure_.layout.parameters()[segment.ready_parameter].offset);
    }
  }
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

const Real* NetworkPass::Predict(const MicroBatchInput& input,
                                 const float* weights) {
  CopyIn(input);
  LayerCall call;
  call.device = device_;
  call.samples = input.samples;
  for (int i = 0; i < structure_.layers(); ++i) ForwardLayer(i, call, weights);
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
  return place < 0 ? nullptr : static_cast<char*>(memory_.get()) + place;
}

void NetworkPass::CopyIn(const MicroBatchInput& input) {
  const NetworkPlan& plan = structure_.plan;
  if (inputs_ != nullptr) {
    if (!input.prefetched) inputs_->Bring(input);
    TakePrefetched(input);
    return;
  }
  const int64_t elements = input.samples * structure_.graph.values()[0];
  device_->CopyFromHost(At(plan.input), input.input,
                        static_cast<size_t>(elements) * sizeof(float));
  if (plan.input_value != plan.input) {
    device_->ops().elementwise->Round(
        {elements, static_cast<const float*>(At(plan.input)),
         RealAt(plan.input_value)});
  }
  if (input.target == nullptr) return;
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
  } else {
    ops.Copy({reals * elements, static_cast<const Real*>(inputs_->input()),
              RealAt(plan.input)});
  }
  // Without targets the copied bytes are unused.
  ops.Copy({reals * input.samples * structure_.graph.loss().TargetElements(),
            static_cast<const Real*>(inputs_->target()), RealAt(plan.target)});
  inputs_->Release();
}

LayerTensors NetworkPass::TensorsOf(int number, bool training,
                                    const float* weights) const {
  const NetworkPlan& plan = structure_.plan;
  const NetworkPlan::Node& planned = plan.nodes[number];
  LayerTensors tensors;
  for (int i = 0; i < kMaxLayerInputs; ++i) {
    tensors.inputs[i] =
        RealAt(training ? planned.inputs[i] : planned.evaluation_inputs[i]);
  }
  tensors.output = RealAt(planned.output);
  tensors.saved = static_cast<float*>(At(planned.saved));
  tensors.gelu_output = RealAt(planned.gelu_output);
  if (planned.sum >= 0) {
    const NetworkPlan::Node& sum = plan.nodes[planned.sum];
    const auto& addends = training ? sum.inputs : sum.evaluation_inputs;
    tensors.sum = RealAt(sum.output);
    tensors.addends = {RealAt(addends[0]), RealAt(addends[1])};
  }
  tensors.constants = static_cast<const float*>(At(planned.constants));
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

void NetworkPass::ForwardLayer(int number, const LayerCall& call,
                               const float* weights) const {
  const Graph::Node& layer = structure_.graph.nodes()[number];
  if (!call.training && layer.spec.identity_in_evaluation) return;
  if (structure_.plan.nodes[number].forward_elsewhere) return;
  const CrashScopeOfLayer crash_scope(layer.name.c_str(), /*backward=*/false);
  layer.layer->Forward(call, TensorsOf(number, call.training, weights));
}

void NetworkPass::BackwardLayer(int number, const LayerCall& call,
                                const float* weights, float* gradients) const {
  const Graph::Node& layer = structure_.graph.nodes()[number];
  const NetworkPlan::Node& planned = structure_.plan.nodes[number];
  LayerTensors tensors = TensorsOf(number, /*training=*/true, weights);
  tensors.output_gradient = RealAt(planned.output_gradient);
  tensors.accumulate = planned.accumulate;
  tensors.accumulate_weight = planned.accumulate_weight;
  tensors.gelu_input = RealAt(planned.gelu_input);
  for (int i = 0; i < kMaxLayerInputs; ++i) {
    tensors.input_gradients[i] =
        RealAt(planned.scratch[i] >= 0 ? planned.scratch[i]
                                       : planned.input_gradients[i]);
  }
  for (size_t i = 0; i < layer.parameters.size(); ++i) {
    tensors.weight_gradients[i] =
        gradients + structure_.layout.parameters()[layer.parameters[i]].offset;
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

}  // namespace tributary

#include "worker/nn/pass_memory.h"

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"

namespace tributary {

absl::StatusOr<PassMemory> PassMemory::Create(const NetworkStructure* structure,
                                              Device* device,
                                              DeviceInputs* inputs,
                                              WeightCopies* copies,
                                              void* shared) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      Device::Memory memory,
      device->Allocate(static_cast<size_t>(structure->plan.kept_bytes)));
  PassMemory made(structure, device, inputs, copies, std::move(memory), shared);
  for (int i = structure->plan.begin; i < structure->plan.end; ++i) {
    const std::vector<float>& constants =
        structure->graph.nodes()[i].spec.constants;
    if (constants.empty()) continue;
    device->CopyFromHost(made.At(structure->plan.nodes[i].constants),
                         constants.data(), constants.size() * sizeof(float));
  }
  return made;
}

PassMemory::PassMemory(const NetworkStructure* structure, Device* device,
                       DeviceInputs* inputs, WeightCopies* copies,
                       Device::Memory memory, void* shared)
    : structure_(structure),
      device_(device),
      inputs_(inputs),
      copies_(copies),
      memory_(std::move(memory)),
      shared_(static_cast<char*>(shared)) {}

void* PassMemory::At(int64_t place) const {
  if (place < 0) return nullptr;
  const int64_t kept = structure_->plan.kept_bytes;
  return place < kept ? static_cast<char*>(memory_.get()) + place
                      : shared_ + (place - kept);
}

void PassMemory::CopyIn(const MicroBatchInput& input) const {
  const NetworkPlan& plan = structure_->plan;
  if (plan.input < 0 && plan.target < 0) return;
  if (inputs_ != nullptr) {
    if (!input.prefetched) inputs_->Bring(input);
    TakePrefetched(input);
    return;
  }
  const int64_t elements = input.samples * structure_->graph.values()[0];
  if (plan.input >= 0) CopyInput(structure_->graph, input, At(plan.input));
  if (plan.input_value != plan.input) {
    device_->ops().elementwise->Round(
        {elements, static_cast<const float*>(At(plan.input)),
         RealAt(plan.input_value)});
  }
  if (input.target == nullptr || plan.target < 0) return;
  device_->CopyFromHost(
      At(plan.target), input.target,
      static_cast<size_t>(input.samples *
                          structure_->graph.loss().TargetElements()) *
          sizeof(float));
}

void PassMemory::TakePrefetched(const MicroBatchInput& input) const {
  const NetworkPlan& plan = structure_->plan;
  // Copy is untyped: a four-byte host element is one or two Reals.
  const int64_t reals = int64_t{sizeof(float)} / device_->real_bytes();
  const int64_t elements = input.samples * structure_->graph.values()[0];
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
    ops.Copy({reals * input.samples * structure_->graph.loss().TargetElements(),
              static_cast<const Real*>(inputs_->target()),
              RealAt(plan.target)});
  }
  inputs_->Release();
}

LayerTensors PassMemory::TensorsOf(int number, Places places,
                                   const float* weights) const {
  const NetworkPlan& plan = structure_->plan;
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
  const Graph::Node& layer = structure_->graph.nodes()[number];
  const std::vector<int>& parameters = layer.parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    tensors.weights[i] =
        weights + structure_->layout.parameters()[parameters[i]].offset;
  }
  if (layer.spec.product_weight) {
    tensors.product_weight =
        copies_->Get(device_, parameters[0], tensors.weights[0]);
  }
  return tensors;
}

void PassMemory::SetWeightGradients(int number, float* gradients,
                                    LayerTensors* tensors) const {
  const std::vector<int>& parameters =
      structure_->graph.nodes()[number].parameters;
  tensors->accumulate_weight = structure_->plan.nodes[number].accumulate_weight;
  for (size_t i = 0; i < parameters.size(); ++i) {
    tensors->weight_gradients[i] =
        gradients + structure_->layout.parameters()[parameters[i]].offset;
  }
}

}  // namespace tributary

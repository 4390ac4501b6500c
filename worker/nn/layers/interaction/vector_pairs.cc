#include "worker/nn/layers/interaction/vector_pairs.h"

namespace tributary {

VectorPairs::VectorPairs(const Function& function, int64_t count, int64_t width,
                         int64_t outputs)
    : function_(function), count_(count), width_(width), outputs_(outputs) {}

LayerSpec VectorPairs::Spec() const {
  LayerSpec spec;
  spec.inputs = {count_ * width_};
  spec.output = outputs_;
  spec.backward_reads_input = true;
  return spec;
}

void VectorPairs::Forward(const LayerCall& call,
                          const LayerTensors& tensors) const {
  InteractionOps& ops = *call.device->ops().interaction;
  (ops.*function_.forward)(
      {call.samples, count_, width_, tensors.inputs[0], tensors.output});
}

void VectorPairs::Backward(const LayerCall& call,
                           const LayerTensors& tensors) const {
  if (tensors.input_gradients[0] == nullptr) return;
  InteractionOps& ops = *call.device->ops().interaction;
  (ops.*function_.backward)({call.samples, count_, width_, tensors.inputs[0],
                             tensors.output_gradient,
                             tensors.input_gradients[0]});
}

PairDots::PairDots(int64_t count, int64_t width)
    : VectorPairs(
          {&InteractionOps::PairDotsForward, &InteractionOps::PairDotsBackward},
          count, width, count * (count - 1) / 2) {}

PairSum::PairSum(int64_t count, int64_t width)
    : VectorPairs(
          {&InteractionOps::PairSumForward, &InteractionOps::PairSumBackward},
          count, width, /*outputs=*/1) {}

}  // namespace tributary

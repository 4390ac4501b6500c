#include "worker/nn/layers/pool.h"

namespace tributary {
namespace {

static_assert(sizeof(int32_t) == sizeof(float),
              "places of maxima are kept in memory counted in floats");

PoolShape WithBatch(PoolShape shape, int64_t batch) {
  shape.batch = batch;
  return shape;
}

LayerSpec PoolSpec(const PoolShape& shape) {
  LayerSpec spec;
  spec.inputs = {shape.channels * shape.in_height * shape.in_width};
  spec.output = shape.channels * shape.out_height * shape.out_width;
  return spec;
}

}  // namespace

LayerSpec MaxPool::Spec() const { return PoolSpec(shape_); }

int64_t MaxPool::SavedElements(const Device& /*device*/,
                               int64_t samples) const {
  return samples * shape_.channels * shape_.out_height * shape_.out_width;
}

void MaxPool::Forward(const LayerCall& call,
                      const LayerTensors& tensors) const {
  PoolingOps::MaxForwardArguments args;
  args.shape = WithBatch(shape_, call.samples);
  args.x = tensors.inputs[0];
  args.y = tensors.output;
  args.argmax = reinterpret_cast<int32_t*>(tensors.saved);
  call.device->ops().pooling->MaxForward(args);
}

void MaxPool::Backward(const LayerCall& call,
                       const LayerTensors& tensors) const {
  if (tensors.input_gradients[0] == nullptr) return;
  PoolingOps::MaxBackwardArguments args;
  args.shape = WithBatch(shape_, call.samples);
  args.dy = tensors.output_gradient;
  args.argmax = reinterpret_cast<const int32_t*>(tensors.saved);
  args.dx = tensors.input_gradients[0];
  call.device->ops().pooling->MaxBackward(args);
}

LayerSpec AveragePool::Spec() const { return PoolSpec(shape_); }

void AveragePool::Forward(const LayerCall& call,
                          const LayerTensors& tensors) const {
  call.device->ops().pooling->AverageForward(
      {WithBatch(shape_, call.samples), tensors.inputs[0], tensors.output});
}

void AveragePool::Backward(const LayerCall& call,
                           const LayerTensors& tensors) const {
  if (tensors.input_gradients[0] == nullptr) return;
  call.device->ops().pooling->AverageBackward({WithBatch(shape_, call.samples),
                                               tensors.output_gradient,
                                               tensors.input_gradients[0]});
}

LayerSpec GlobalAveragePool::Spec() const {
  LayerSpec spec;
  spec.inputs = {channels_ * pixels_};
  spec.output = channels_;
  return spec;
}

void GlobalAveragePool::Forward(const LayerCall& call,
                                const LayerTensors& tensors) const {
  PoolingOps::GlobalAverageForwardArguments args;
  args.planes = call.samples * channels_;
  args.pixels = pixels_;
  args.x = tensors.inputs[0];
  args.y = tensors.output;
  call.device->ops().pooling->GlobalAverageForward(args);
}

void GlobalAveragePool::Backward(const LayerCall& call,
                                 const LayerTensors& tensors) const {
  if (tensors.input_gradients[0] == nullptr) return;
  PoolingOps::GlobalAverageBackwardArguments args;
  args.planes = call.samples * channels_;
  args.pixels = pixels_;
  args.dy = tensors.output_gradient;
  args.dx = tensors.input_gradients[0];
  call.device->ops().pooling->GlobalAverageBackward(args);
}

}  // namespace tributary

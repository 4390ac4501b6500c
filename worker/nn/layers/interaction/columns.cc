#include "worker/nn/layers/interaction/columns.h"

#include <cstddef>
#include <utility>

namespace tributary {

Columns::Columns(std::vector<int64_t> inputs, std::vector<Piece> pieces)
    : inputs_(std::move(inputs)),
      pieces_(std::move(pieces)),
      selected_(inputs_.size(), 0) {
  for (const Piece& piece : pieces_) {
    selected_[piece.input] += piece.count * piece.width;
    outputs_ += piece.count * piece.width;
  }
}

LayerSpec Columns::Spec() const {
  LayerSpec spec;
  spec.inputs = inputs_;
  spec.output = outputs_;
  spec.accumulates = true;
  return spec;
}

void Columns::Forward(const LayerCall& call,
                      const LayerTensors& tensors) const {
  int64_t place = 0;
  for (const Piece& piece : pieces_) {
    InteractionOps::CopyBlocksArguments args;
    args.rows = call.samples;
    args.count = piece.count;
    args.width = piece.width;
    args.x = tensors.inputs[piece.input];
    args.from = {piece.first, inputs_[piece.input], piece.stride};
    args.y = tensors.output;
    args.to = {place, outputs_, piece.width};
    call.device->ops().interaction->CopyBlocks(args);
    place += piece.count * piece.width;
  }
}

void Columns::Backward(const LayerCall& call,
                       const LayerTensors& tensors) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Real* const gradient = tensors.input_gradients[i];
    if (gradient == nullptr || tensors.accumulate[i]) continue;
    if (selected_[i] == inputs_[i]) continue;
    // Zero counts elements of four bytes, which hold one or two Reals. Tensors
    // are padded to more than that.
    const int64_t bytes = call.samples * inputs_[i] * call.device->real_bytes();
    constexpr int64_t kFloatBytes = sizeof(float);
    call.device->Zero(reinterpret_cast<float*>(gradient),
                      (bytes + kFloatBytes - 1) / kFloatBytes);
  }
  int64_t place = 0;
  for (const Piece& piece : pieces_) {
    InteractionOps::CopyBlocksArguments args;
    args.rows = call.samples;
    args.count = piece.count;
    args.width = piece.width;
    args.x = tensors.output_gradient;
    args.from = {place, outputs_, piece.width};
    args.y = tensors.input_gradients[piece.input];
    args.to = {piece.first, inputs_[piece.input], piece.stride};
    args.accumulate = tensors.accumulate[piece.input];
    if (args.y != nullptr) call.device->ops().interaction->CopyBlocks(args);
    place += piece.count * piece.width;
  }
}

}  // namespace tributary

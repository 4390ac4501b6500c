// Selection and concatenation of columns.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_INTERACTION_COLUMNS_H_
#define TRIBUTARY_WORKER_NN_LAYERS_INTERACTION_COLUMNS_H_

#include <cstdint>
#include <vector>

#include "worker/nn/layers/layer.h"

namespace tributary {

// Concatenates columns of its inputs: each row of Y consists of the pieces of
// the same row of the inputs, one behind the other. Inputs have the shapes
// [samples, inputs[i]]. The gradient of a column is that of its place in Y, and
// 0 if no piece contains it.
class Columns : public Layer {
 public:
  // The columns [first + k * stride, first + k * stride + width) of an input,
  // for each k < count.
  struct Piece {
    int input = 0;
    int64_t first = 0;
    int64_t width = 0;
    int64_t count = 1;
    int64_t stride = 0;
  };

  // Has at most kMaxLayerInputs inputs. No two pieces share a column.
  Columns(std::vector<int64_t> inputs, std::vector<Piece> pieces);
  // Concatenates two whole inputs.
  Columns(int64_t first_size, int64_t second_size)
      : Columns({first_size, second_size},
                {{0, 0, first_size}, {1, 0, second_size}}) {}

  LayerSpec Spec() const override;
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override;
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override;

 private:
  const std::vector<int64_t> inputs_;
  const std::vector<Piece> pieces_;
  std::vector<int64_t> selected_;  // By input: the number of columns.
  int64_t outputs_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_INTERACTION_COLUMNS_H_

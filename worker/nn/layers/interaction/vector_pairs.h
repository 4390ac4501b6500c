// Interactions of all pairs of the vectors of a sample.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_INTERACTION_VECTOR_PAIRS_H_
#define TRIBUTARY_WORKER_NN_LAYERS_INTERACTION_VECTOR_PAIRS_H_

#include <cstdint>

#include "worker/nn/layers/layer.h"

namespace tributary {

// Base class: X has the shape [samples, count, width].
class VectorPairs : public Layer {
 public:
  LayerSpec Spec() const override;
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override;
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override;

 protected:
  struct Function {
    void (InteractionOps::*forward)(
        const InteractionOps::PairsForwardArguments&);
    void (InteractionOps::*backward)(
        const InteractionOps::PairsBackwardArguments&);
  };

  VectorPairs(const Function& function, int64_t count, int64_t width,
              int64_t outputs);

 private:
  const Function function_;
  const int64_t count_;
  const int64_t width_;
  const int64_t outputs_;
};

// The dot products of all pairs, Y[samples, count (count - 1) / 2]. They are
// the elements below the diagonal of X X^T, row by row: x_1 x_0, x_2 x_0, x_2
// x_1, x_3 x_0 and so on. dx_i is the sum over j != i of dy_ij x_j.
class PairDots : public VectorPairs {
 public:
  PairDots(int64_t count, int64_t width);
};

// The sum of the dot products of all pairs, Y[samples]: the second-order term
// of a factorization machine (Rendle, 2010), y = half the sum over c of s_c^2 -
// q_c with the sums s of the vectors and q of their squares. dx_i = dy (s -
// x_i).
class PairSum : public VectorPairs {
 public:
  PairSum(int64_t count, int64_t width);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_INTERACTION_VECTOR_PAIRS_H_

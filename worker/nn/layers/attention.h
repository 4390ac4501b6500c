// Multi-head attention.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_ATTENTION_H_
#define TRIBUTARY_WORKER_NN_LAYERS_ATTENTION_H_

#include <cstdint>

#include "worker/nn/layers/layer.h"

namespace tributary {

// Multi-head attention. For each sample and head, with q, k, v of shape [time,
// head_size]:
//   P = softmax over visible keys j of q_i . k_j / sqrt(head_size);  y = D(P) v
// where D applies dropout with rate `dropout` to the probabilities P in
// training, and is the identity otherwise. If causal, query i attends to the
// keys j <= i. Otherwise it attends to the first n keys, where n is the length
// of the sample, and rows i >= n of y are 0.
//
// X[samples, time, 3, heads, head_size] holds q, k and v: the output of a
// linear layer with 3 * heads * head_size outputs. If not causal, input 1 is
// the SequenceInput of the network, which contains the lengths. Y[samples,
// time, heads, head_size]. Source: Vaswani et al., "Attention is all you need"
// (2017).
class Attention : public Layer {
 public:
  struct Options {
    int64_t time = 0;
    int64_t heads = 0;
    int64_t head_size = 0;
    float dropout = 0;  // In [0, 1).
    bool causal = true;
  };

  explicit Attention(const Options& options) : options_(options) {}

  LayerSpec Spec() const override;
  int64_t SavedElements(const Device& device, int64_t samples) const override;
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override;
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override;

 private:
  AttentionShape ShapeOf(int64_t samples) const;
  // Returns the lengths of the samples, [samples], or null if attention is
  // causal.
  const int32_t* LengthsOf(const LayerCall& call,
                           const LayerTensors& tensors) const;

  const Options options_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_ATTENTION_H_

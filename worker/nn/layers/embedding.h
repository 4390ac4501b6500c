// Token and position embedding.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_EMBEDDING_H_
#define TRIBUTARY_WORKER_NN_LAYERS_EMBEDDING_H_

#include <cstdint>

#include "worker/nn/layers/initializer.h"
#include "worker/nn/layers/layer.h"

namespace tributary {

// Adds a token embedding and a position embedding: y[b, t, :] = wte[tokens[b,
// t], :] + wpe[t, :]. The gradient of a row of a table is the sum of dy over
// all places where the row is used. The input holds int32 tokens[samples,
// context], not floats; Y[samples, context, width]. Parameters:
// "wte.weight"[vocabulary, width], "wpe.weight"[context, width]. Source:
// Radford et al., "Language models are unsupervised multitask learners" (2019),
// with learned positions.
class Embedding : public Layer {
 public:
  struct Options {
    int64_t vocabulary = 0;
    int64_t context = 0;
    int64_t width = 0;
    // Number of rows of zeros that follow the token table in memory, for an
    // output layer that shares the table; see Linear::Options.
    int64_t padding = 0;
    Initializer initializer;  // For both tables.
  };

  explicit Embedding(const Options& options) : options_(options) {}

  LayerSpec Spec() const override;
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override;
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override;

 private:
  const Options options_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_EMBEDDING_H_

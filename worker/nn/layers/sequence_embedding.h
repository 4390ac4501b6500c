// Embedding of tokens, positions and token types.
#ifndef TRIBUTARY_WORKER_NN_LAYERS_SEQUENCE_EMBEDDING_H_
#define TRIBUTARY_WORKER_NN_LAYERS_SEQUENCE_EMBEDDING_H_

#include <cstdint>

#include "worker/nn/layers/initializer.h"
#include "worker/nn/layers/layer.h"

namespace tributary {

// The input of a network that reads texts of different lengths. It consists of
// three int32 arrays, one after the other, for all samples of the micro-batch:
// tokens[samples, context], types[samples, context] and lengths[samples]. (In
// the inputs of all other networks and in all outputs of layers, the elements
// of each sample are contiguous.)
struct SequenceInput {
  const int32_t* tokens = nullptr;
  const int32_t* types = nullptr;
  const int32_t* lengths = nullptr;

  // Returns the number of int32 elements of the input per sample: `context`
  // tokens, `context` types and one length.
  static int64_t Elements(int64_t context) { return 2 * context + 1; }
  // Returns pointers to the three arrays of the network's input at `input`.
  static SequenceInput At(const Real* input, int64_t samples, int64_t context);
};

// Adds three embeddings: y[b, t, :] = word[tokens[b, t], :] + position[t, :] +
// type[types[b, t], :]. The input is a SequenceInput; Y[samples, context,
// width]. Parameters: "word_embeddings.weight"[vocabulary, width],
// "position_embeddings.weight"[positions, width] and
// "token_type_embeddings.weight"[types, width]. The gradient of a row of a
// table is the sum of dy over all places where the row is used. Source: Devlin
// et al., "BERT: pre-training of deep bidirectional transformers for language
// understanding" (2019).
class SequenceEmbedding : public Layer {
 public:
  struct Options {
    int64_t vocabulary = 0;
    int64_t context = 0;
    int64_t positions = 0;  // At least `context`.
    int64_t types = 0;
    int64_t width = 0;
    Initializer initializer;  // For all tables.
  };

  explicit SequenceEmbedding(const Options& options) : options_(options) {}

  LayerSpec Spec() const override;
  void Forward(const LayerCall& call,
               const LayerTensors& tensors) const override;
  void Backward(const LayerCall& call,
                const LayerTensors& tensors) const override;

 private:
  const Options options_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_LAYERS_SEQUENCE_EMBEDDING_H_

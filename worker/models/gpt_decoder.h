// Computes the logits of the next token of a sequence with a trained GPT model,
// incrementally.
#ifndef TRIBUTARY_WORKER_MODELS_GPT_DECODER_H_
#define TRIBUTARY_WORKER_MODELS_GPT_DECODER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/parameters/arena_layout.h"
#include "proto/job.pb.h"
#include "worker/device/device.h"
#include "worker/nn/graph.h"
#include "worker/nn/weight_copies.h"

namespace tributary {

// Computes the same logits as Model::NextTokenLogits, except for rounding, but
// keeps the keys and values of the tokens that it has already processed (KV
// cache). Each further token therefore requires only one row of each matrix
// product, and attention to the tokens before it. Owns device memory for the
// cache and for the activations of up to 128 tokens, which are computed
// together when a prompt is read.
//
// Not thread-safe. Blocks until the device has computed the logits.
class GptDecoder {
 public:
  // `spec` must describe a GPT model in which defaults have been set (see
  // ResolveJob). `device` must outlive the decoder. Returns the errors of
  // BuildGpt, and ResourceExhausted if memory does not suffice.
  static absl::StatusOr<std::unique_ptr<GptDecoder>> Create(
      const ModelSpec& spec, Device* device);
  GptDecoder(const GptDecoder&) = delete;
  GptDecoder& operator=(const GptDecoder&) = delete;

  // The layout of the weights that SetWeights takes.
  const ArenaLayout& layout() const { return layout_; }
  int64_t vocabulary() const { return spec_.vocabulary(); }
  // Returns the size in bytes of the device memory that this object owns,
  // except for copies of the weights in bfloat16.
  int64_t memory_bytes() const { return memory_bytes_; }

  // Sets the weights, and empties the cache. `weights` is one buffer with all
  // parameters, laid out by layout(), in the memory of the device. The decoder
  // does not copy it, so it must outlive the decoder.
  void SetWeights(const float* weights);

  // Computes the logits of the token that follows `tokens`, one for each token
  // of the vocabulary. If `tokens` begins with the tokens of the previous call,
  // only the remaining tokens are computed.
  //
  // The model has position embeddings for model.gpt.context tokens. When a
  // sequence is longer, the cache is emptied, and as many of the last tokens as
  // three quarters of the context are computed again. From then on, each
  // prediction uses between three quarters of the context and the whole
  // context, and requires the computation of four tokens on average.
  //
  // Returns InvalidArgument if `tokens` is empty, a token is out of range, or
  // `logits` has the wrong size, and the device's error if it has failed.
  absl::Status NextTokenLogits(absl::Span<const int32_t> tokens,
                               absl::Span<float> logits);

 private:
  // The parameters of a linear layer or a norm: positions in
  // layout().parameters(), or -1 for a bias that does not exist.
  struct Affine {
    int weight = -1;
    int bias = -1;
  };
  struct Block {
    Affine norm_1, qkv, projection, norm_2, up, down;
    float* cache = nullptr;
  };
  // Intermediate results, in device memory, for up to rows_ tokens.
  struct Tensors {
    Real *stream, *branch, *normed, *qkv, *attended, *hidden, *activated;
    Real* logits;
    float *mean, *inverse_deviation;
    float* head_bias;  // Null without padding.
    int32_t* tokens;
  };

  GptDecoder(const GptSpec& spec, Device* device, Graph graph,
             ArenaLayout layout);

  absl::Status Allocate();
  int Find(const std::string& name) const;
  Affine FindAffine(const std::string& name) const;
  AttentionOps::CacheShape cache_shape() const;

  // Adds `tokens` to the cache. If `last` is true, also computes the logits of
  // the token that follows them.
  void Compute(absl::Span<const int32_t> tokens, bool last);
  // Normalizes Tensors::stream, the residual stream. If `add` is true, first
  // adds Tensors::branch to it.
  void Norm(const Affine& norm, int64_t rows, bool add);
  void Multiply(const Affine& layer, int64_t rows, int64_t inputs,
                int64_t outputs, const Real* x, Real* y);
  void Head(int64_t rows);
  const float* Weight(int parameter) const;
  const Real* ProductWeight(int parameter);

  const GptSpec spec_;
  Device* const device_;
  const Graph graph_;
  const ArenaLayout layout_;
  const int64_t rows_;
  std::vector<Block> blocks_;
  Affine last_norm_;
  int head_ = -1;
  int token_table_ = -1, position_table_ = -1;
  int64_t memory_bytes_ = 0;
  Device::Memory memory_{nullptr, [](void*) {}};
  Tensors tensors_ = {};
  WeightCopies copies_;
  const float* weights_ = nullptr;
  // `cached_` holds the tokens whose keys and values are in the cache.
  // `dropped_` is the number of tokens before them that have been dropped from
  // the cache.
  std::vector<int32_t> cached_;
  size_t dropped_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_GPT_DECODER_H_

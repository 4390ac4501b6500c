// Decoder-only transformer.
#ifndef TRIBUTARY_WORKER_MODELS_GPT_H_
#define TRIBUTARY_WORKER_MODELS_GPT_H_

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/nn/graph.h"

namespace tributary {

// Builds GPT-2 (Radford et al., "Language models are unsupervised multitask
// learners", 2019):
//   tokens -> token and position embedding -> dropout ->
//   [x += dropout(proj(attention(qkv(norm(x)))));
//    x += dropout(down(gelu(up(norm(x)))))] for each layer
//   -> norm -> head -> cross-entropy of each next token.
//
// Parameters have the names of GPT-2 in Hugging Face's transformers
// ("transformer.wte.weight", "transformer.h.<i>.attn.c_attn.weight", ..., and
// "lm_head.weight" unless the head shares the weights of the token embedding).
// They have the shapes of GPT-2, except that matrices are [outputs, inputs].
// The head has no bias. Initial values: matrices and embeddings are normal with
// standard deviation 0.02, which is divided by sqrt(2 * layers) for matrices
// whose result is added to the residual stream; biases are 0; norms have scale
// 1 and shift 0. model.gpt.vocabulary_multiple, which pads the vocabulary,
// changes neither names nor shapes, because the padding is not part of the
// parameters. Returns InvalidArgument, naming the field, if a field of
// model.gpt is invalid.
absl::StatusOr<Graph> BuildGpt(const ModelSpec& spec, const DataInfo& info);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_GPT_H_

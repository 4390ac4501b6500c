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
// Parameters have the names of GPT-2 ("transformer.wte.weight",
// "transformer.h.<i>.attn.c_attn.weight", ..., "lm_head.weight" unless the head
// is tied), and its shapes, but matrices are [outputs, inputs]. The head has no
// bias. Initial
// values: matrices and embeddings are normal with standard deviation 0.02,
// divided by sqrt(2 layers) where they write to the residual stream; biases are
// 0; norms are 1 and 0. model.gpt.vocabulary_multiple changes neither names nor
// shapes: the padding is in the arena. Returns InvalidArgument, naming the
// field of model.gpt.
absl::StatusOr<Graph> BuildGpt(const ModelSpec& spec, const DataInfo& info);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_GPT_H_

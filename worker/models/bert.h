// Encoder-only transformer.
#ifndef TRIBUTARY_WORKER_MODELS_BERT_H_
#define TRIBUTARY_WORKER_MODELS_BERT_H_

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/nn/graph.h"

namespace tributary {

// Builds BERT (Devlin et al., "BERT: pre-training of deep bidirectional
// transformers for language understanding", 2019) as Hugging Face's
// transformers computes it:
//   tokens, types -> sum of word, position and type embedding -> norm ->
//   dropout ->
//   [x = norm(x + dropout(dense(attention(query, key, value)(x))));
//    x = norm(x + dropout(output(gelu(intermediate(x)))))] for each layer.
// GELU is computed exactly, without the tanh approximation. Each position
// attends to all positions of its sample, except padding.
//
// The head depends on the task. MASKED_LANGUAGE_MODEL: -> dense -> gelu -> norm
// -> decoder, whose weights are those of the word embedding -> cross-entropy of
// the positions with a label. SEQUENCE_CLASSIFICATION: -> row of the first
// token -> dense -> tanh -> dropout -> classifier -> cross-entropy.
//
// Names and shapes of the parameters are those of BertForMaskedLM and
// BertForSequenceClassification. Initial values: matrices and embeddings are
// normal with standard deviation 0.02, biases are 0, norms have scale 1 and
// shift 0. `info` must be of kind kSequences. Returns InvalidArgument, naming
// the field, if a field of model.bert is invalid.
absl::StatusOr<Graph> BuildBert(const ModelSpec& spec, const DataInfo& info);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_BERT_H_

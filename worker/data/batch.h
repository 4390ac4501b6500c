// Samples in the form that models take, and the description of a data set.
#ifndef TRIBUTARY_WORKER_DATA_BATCH_H_
#define TRIBUTARY_WORKER_DATA_BATCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tributary {

// Properties of a data set that a model depends on.
struct DataInfo {
  // What a sample is. kImages: a picture. kRows: the features of a row of a
  // table. kTokens: a window of a text, for models that predict the next token.
  // kIndexes: only an index, which the model maps to data itself. kSequences: a
  // text, for model.bert; texts have different lengths.
  enum class Kind { kImages, kRows, kTokens, kIndexes, kSequences };
  Kind kind = Kind::kRows;
  // Shape of one sample. kImages: {channels, height, width}. kRows: {features}.
  // kTokens, kSequences: {context}. kIndexes: empty.
  std::vector<int64_t> sample_shape;
  // Number of classes. If the model predicts tokens, the size of the
  // vocabulary. 0 for regression.
  int64_t classes = 0;
  // Set for kSequences only. `vocabulary` is the number of different tokens,
  // and `token_types` the number of different token types. `token_labels` is
  // true if each token has a label, and false if each sample has one label.
  int64_t vocabulary = 0;
  int64_t token_types = 0;
  bool token_labels = false;
  // Number of elements of the vector of each feature of JobSpec.sparse, in the
  // order of the features. Empty in jobs without tables.
  std::vector<int64_t> vector_dims;
  // The names of these features.
  std::vector<std::string> vector_names;
};

class RowLookups;

// The keys of one feature of JobSpec.sparse in a set of samples.
struct FeatureKeys {
  std::vector<uint64_t> keys;  // Sample by sample.
  // The keys of sample i are [ends[i - 1], ends[i]) of `keys`, where ends[-1]
  // stands for 0.
  std::vector<int64_t> ends;
};

// The label of padding, and of tokens that a model does not predict; see Batch.
inline constexpr int32_t kNotCounted = -1;

// A set of samples in host memory, row-major, sample by sample. Each sample has
// an input, in either `features` or `tokens`, and a target, in either `labels`
// or `values`; the other vector of each pair is empty. Data sets of
// DataInfo::Kind::kIndexes set only `samples`, `indexes` and `epoch`.
//
// The label kNotCounted marks padding: it contributes nothing to the loss, the
// correct predictions or the sample count. With kTokens, padding occurs only in
// evaluation, at the end of a text whose last window is shorter than the
// context. The padded tokens are 0. With kSequences, tokens that the model does
// not predict have this label, too.
struct Batch {
  int64_t samples = 0;
  // Inputs, [samples, product of DataInfo::sample_shape].
  std::vector<float> features;
  // Inputs, [samples, context].
  std::vector<int32_t> tokens;
  // Targets that are classes. With kTokens, [samples, context]: the label of
  // each token is the token that follows it, or kNotCounted for padding. With
  // kSequences and DataInfo::token_labels, [samples, context]. Otherwise,
  // [samples].
  std::vector<int32_t> labels;
  // Targets that are numbers, [samples] or, if each sample has several,
  // [samples, LossSpec::TargetElements()].
  std::vector<float> values;
  // The index of each sample within the training or the held-out part,
  // [samples]. Like `epoch`, set only by IndexDataSet.
  std::vector<int64_t> indexes;
  // Epoch of the samples. Meaningful for training samples only.
  int64_t epoch = 0;
  // OK, or an error that names a sample that could not be read. After an error,
  // the other fields must not be used, and the job fails with this error.
  absl::Status error;
  // Set for kSequences only. `token_types` is the type of each token, [samples,
  // context]. `lengths` is the number of tokens of each sample without padding,
  // at least 1, [samples].
  std::vector<int32_t> token_types;
  std::vector<int32_t> lengths;
  // For each feature of JobSpec.sparse, in the order of the features: what the
  // data set has read. Empty in jobs without tables.
  std::vector<FeatureKeys> feature_keys;
  // Inputs, [samples, sum of DataInfo::vector_dims]: for each sample, the
  // vectors of all features, which follow from the rows of the keys. Not set by
  // data sets.
  std::vector<float> vectors;
  // Where a model that finds out the keys of its samples itself looks up rows.
  // Null otherwise.
  RowLookups* lookups = nullptr;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_BATCH_H_

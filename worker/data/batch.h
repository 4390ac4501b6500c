// Samples in the form that models take, and the description of a data set.
#ifndef TRIBUTARY_WORKER_DATA_BATCH_H_
#define TRIBUTARY_WORKER_DATA_BATCH_H_

#include <cstdint>
#include <vector>

namespace tributary {

// Properties of a data set that a model depends on.
struct DataInfo {
  enum class Kind { kImages, kRows, kTokens, kIndexes };
  Kind kind = Kind::kRows;
  // kImages: channels, height, width. kRows: {features}. kTokens: {context}.
  // kIndexes: empty.
  std::vector<int64_t> sample_shape;
  // Number of classes (kTokens: size of the vocabulary); 0 for regression.
  int64_t classes = 0;
};

// A set of samples in host memory, row-major, sample by sample. Exactly one of
// `features` and `tokens`, and one of `labels` and `values`, is filled. With
// DataInfo::Kind::kIndexes, only `indexes` and `epoch` are.
//
// A label of -1 is not counted: it contributes nothing to the loss, the correct
// predictions or the sample count. It occurs only in evaluation, at the end of
// a text whose last window is shorter than the context; the tokens there are 0.
struct Batch {
  int64_t samples = 0;
  // [samples, product of sample_shape]
  std::vector<float> features;
  // [samples, context]
  std::vector<int32_t> tokens;
  // [samples]: classes. With tokens, [samples, context]: the token that follows
  // each token, or -1.
  std::vector<int32_t> labels;
  // [samples]: regression targets
  std::vector<float> values;
  // [samples]: indexes of the training samples, or of the held-out samples
  std::vector<int64_t> indexes;
  // The epoch of training samples.
  int64_t epoch = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_BATCH_H_

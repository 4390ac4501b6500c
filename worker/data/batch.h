// Samples in the form that models take, and the description of a data set.
#ifndef TRIBUTARY_WORKER_DATA_BATCH_H_
#define TRIBUTARY_WORKER_DATA_BATCH_H_

#include <cstdint>
#include <vector>

namespace tributary {

// Properties of a data set that a model depends on.
struct DataInfo {
  enum class Kind { kImages, kRows, kTokens };
  Kind kind = Kind::kRows;
  // kImages: channels, height, width. kRows: {features}. kTokens: {context}.
  std::vector<int64_t> sample_shape;
  // Number of classes (kTokens: size of the vocabulary); 0 for regression.
  int64_t classes = 0;
};

// A set of samples in host memory, row-major, sample by sample. Exactly one of
// `features` and `tokens`, and one of `labels` and `values`, is filled.
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
  // [samples]: the samples' numbers in the data set, and their epoch. Filled
  // only for models that look up their samples themselves.
  std::vector<int64_t> indexes;
  int64_t epoch = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_BATCH_H_

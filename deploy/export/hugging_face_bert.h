// The format of Hugging Face for models of kind bert.
#ifndef TRIBUTARY_DEPLOY_EXPORT_HUGGING_FACE_BERT_H_
#define TRIBUTARY_DEPLOY_EXPORT_HUGGING_FACE_BERT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tensor_io/safetensors.h"
#include "deploy/flags/run_files.h"
#include "nlohmann/json.hpp"
#include "proto/job.pb.h"

namespace tributary {

// Returns all tensors of the trained model, which have the names and shapes of
// BertForMaskedLM or BertForSequenceClassification. The result refers to
// `tensors`. Returns DataLoss if the sizes of the model contradict the tensors.
absl::StatusOr<std::vector<NamedTensor>> BertTensors(
    const BertSpec& bert, const std::map<std::string, RunTensor>& tensors);

// Writes the members of config.json that describe the model to `config`.
// `classes` is the number of classes of a classifier, or 0 for a different
// model. `names` are the names of the classes; if `names` is empty, writes
// names that contain the numbers of the classes.
void DescribeBert(const BertSpec& bert, int64_t classes,
                  const std::vector<std::string>& names,
                  nlohmann::ordered_json* config);

// Writes the files of a BERT tokenizer, in the format of the transformers
// library, to `folder`. `tokenizer_json` is the text of the tokenizer's
// tokenizer.json. `positions` is the maximum number of tokens in a sample.
// Returns the errors of ParseTokenizerJson, and the system's error if a file
// cannot be written.
absl::Status WriteBertTokenizer(const std::string& tokenizer_json,
                                int64_t positions, const std::string& folder);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_EXPORT_HUGGING_FACE_BERT_H_

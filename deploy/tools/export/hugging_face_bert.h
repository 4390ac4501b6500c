// The format of Hugging Face for models of kind bert.
#ifndef TRIBUTARY_DEPLOY_TOOLS_EXPORT_HUGGING_FACE_BERT_H_
#define TRIBUTARY_DEPLOY_TOOLS_EXPORT_HUGGING_FACE_BERT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tensor_io/safetensors_file.h"
#include "deploy/flags/run_files.h"
#include "nlohmann/json.hpp"
#include "proto/job.pb.h"

namespace tributary {

// Returns all tensors of the trained model, with the names and shapes that
// BertForMaskedLM or BertForSequenceClassification expects. The result points
// into `tensors`. Returns DataLoss if a tensor is missing, or its shape
// contradicts `bert`.
absl::StatusOr<std::vector<NamedTensor>> BertTensors(
    const BertSpec& bert, const std::map<std::string, RunTensor>& tensors);

// Sets the members of `config`, the contents of a config.json, that describe
// the model. `classes` is the number of classes, or 0 if the model is not a
// classifier. `names` are the names of the classes; if `names` is empty, the
// names are LABEL_0, LABEL_1, and so on.
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

#endif  // TRIBUTARY_DEPLOY_TOOLS_EXPORT_HUGGING_FACE_BERT_H_

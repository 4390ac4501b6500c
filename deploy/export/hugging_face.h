// Writes trained models in the format of Hugging Face's transformers.
#ifndef TRIBUTARY_DEPLOY_EXPORT_HUGGING_FACE_H_
#define TRIBUTARY_DEPLOY_EXPORT_HUGGING_FACE_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "deploy/flags/run_files.h"
#include "proto/job.pb.h"

namespace tributary {

// Writes config.json and model.safetensors to `folder`, which must exist, so
// that the model that transformers loads from it has the same logits as the
// model of `job`, which must be resolved, with the weights `tensors`:
// GPT2LMHeadModel for gpt; BertForMaskedLM or BertForSequenceClassification for
// bert. If the job began with the weights of a folder of Hugging Face, keeps
// the other members of that folder's config.json. `encoding` is what the data
// set has learned (data.json), or empty: if it describes a tokenizer and
// classes, writes the tokenizer, and the classes' names to config.json.
// Otherwise, copies the tokenizer of the folder that the job began with.
//
// Returns InvalidArgument if the model is neither gpt nor bert, DataLoss if a
// tensor is missing or has the wrong shape, and the system's error if a file
// cannot be written.
absl::Status WriteHuggingFaceFolder(
    const JobSpec& job, const std::map<std::string, RunTensor>& tensors,
    const std::string& encoding, const std::string& folder);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_EXPORT_HUGGING_FACE_H_

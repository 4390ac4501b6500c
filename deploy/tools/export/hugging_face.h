// Writes trained models in the format of Hugging Face's transformers.
#ifndef TRIBUTARY_DEPLOY_TOOLS_EXPORT_HUGGING_FACE_H_
#define TRIBUTARY_DEPLOY_TOOLS_EXPORT_HUGGING_FACE_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "deploy/flags/run_files.h"
#include "proto/job.pb.h"

namespace tributary {

// Writes config.json and model.safetensors to `folder`, which must exist. The
// model that transformers loads from `folder` has the same logits as the model
// of `job` with the weights `tensors`. It is a GPT2LMHeadModel for a gpt, and a
// BertForMaskedLM or a BertForSequenceClassification for a bert. `job` must be
// a result of ResolveJob.
//
// The source folder is the Hugging Face folder with whose weights the job began
// (model.initial_weights), if any. The members of its config.json that do not
// describe the model are kept. `encoding` is the text of data.json (see
// ReadEncoding), or empty. If `encoding` describes the tokenizer of a bert,
// writes this tokenizer to `folder`; otherwise, copies the tokenizer of the
// source folder. If `encoding` names the classes of a bert, writes their names
// to config.json.
//
// Returns InvalidArgument if the model is neither gpt nor bert, DataLoss if a
// tensor is missing or has the wrong shape, and the system's error if a file
// cannot be written.
absl::Status WriteHuggingFaceFolder(
    const JobSpec& job, const std::map<std::string, RunTensor>& tensors,
    const std::string& encoding, const std::string& folder);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_EXPORT_HUGGING_FACE_H_

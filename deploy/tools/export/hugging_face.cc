#include "deploy/tools/export/hugging_face.h"

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/os/file_system.h"
#include "common/tensor_io/safetensors_file.h"
#include "deploy/tools/export/hugging_face_bert.h"
#include "nlohmann/json.hpp"
#include "worker/data/text/text_encoding.h"

namespace tributary {
namespace {

constexpr int64_t kMaxConfigBytes = 1 << 20;
// A tokenizer.json of a large vocabulary has about 20 MB.
constexpr int64_t kMaxTokenizerBytes = int64_t{1} << 30;

constexpr const char* kTokenizerFiles[] = {"tokenizer.json",
                                           "tokenizer_config.json",
                                           "special_tokens_map.json",
                                           "added_tokens.json",
                                           "vocab.json",
                                           "merges.txt",
                                           "vocab.txt",
                                           "generation_config.json"};

// Collects the tensors of the exported model.
class ExportedModel {
 public:
  explicit ExportedModel(const std::map<std::string, RunTensor>& tensors)
      : tensors_(tensors) {}

  // Adds the tensor `name` with this shape, transposed if it is the weight of a
  // Conv1D layer.
  absl::Status Add(const std::string& name, const std::vector<int64_t>& shape) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      return absl::DataLossError(
          absl::StrCat("the final model has no tensor ", name,
                       ", which the model of job.textproto requires"));
    }
    if (found->second.shape != shape) {
      return absl::DataLossError(
          absl::StrCat("tensor ", name, " of the final model has shape [",
                       absl::StrJoin(found->second.shape, ", "),
                       "], expected [", absl::StrJoin(shape, ", "), "]"));
    }
    const bool is_conv1d = shape.size() == 2 && absl::StrContains(name, ".c_");
    if (!is_conv1d) {
      named_.push_back({name, shape, found->second.values.data()});
      return absl::OkStatus();
    }
    const int64_t rows = shape[0], columns = shape[1];
    std::vector<float> values(rows * columns);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        values[column * rows + row] =
            found->second.values[row * columns + column];
      }
    }
    AddOwned(name, {columns, rows}, std::move(values));
    return absl::OkStatus();
  }

  void AddZeros(const std::string& name, int64_t size) {
    AddOwned(name, {size}, std::vector<float>(size, 0));
  }

  const std::vector<NamedTensor>& tensors() const { return named_; }

 private:
  void AddOwned(const std::string& name, std::vector<int64_t> shape,
                std::vector<float> values) {
    owned_.push_back(std::move(values));
    named_.push_back({name, std::move(shape), owned_.back().data()});
  }

  const std::map<std::string, RunTensor>& tensors_;
  std::vector<std::vector<float>> owned_;
  std::vector<NamedTensor> named_;
};

// GPT2LMHeadModel always has biases. Zeros are the same as none.
absl::Status AddBias(const GptSpec& gpt, const std::string& name, int64_t size,
                     ExportedModel* model) {
  if (gpt.bias()) return model->Add(name, {size});
  model->AddZeros(name, size);
  return absl::OkStatus();
}

absl::Status AddLayer(const GptSpec& gpt, const std::string& name,
                      std::vector<int64_t> shape, ExportedModel* model) {
  TRIBUTARY_RETURN_IF_ERROR(model->Add(absl::StrCat(name, ".weight"), shape));
  return AddBias(gpt, absl::StrCat(name, ".bias"), shape[0], model);
}

absl::Status AddGpt(const GptSpec& gpt, ExportedModel* model) {
  const int64_t width = gpt.width();
  const std::string root = "transformer.";
  TRIBUTARY_RETURN_IF_ERROR(
      model->Add(root + "wte.weight", {gpt.vocabulary(), width}));
  TRIBUTARY_RETURN_IF_ERROR(
      model->Add(root + "wpe.weight", {gpt.context(), width}));
  for (int64_t i = 0; i < gpt.layers(); ++i) {
    const std::string block = absl::StrCat(root, "h.", i, ".");
    const std::pair<const char*, std::vector<int64_t>> layers[] = {
        {"ln_1", {width}},
        {"attn.c_attn", {3 * width, width}},
        {"attn.c_proj", {width, width}},
        {"ln_2", {width}},
        {"mlp.c_fc", {4 * width, width}},
        {"mlp.c_proj", {width, 4 * width}}};
    for (const auto& [name, shape] : layers) {
      TRIBUTARY_RETURN_IF_ERROR(AddLayer(gpt, block + name, shape, model));
    }
  }
  TRIBUTARY_RETURN_IF_ERROR(AddLayer(gpt, root + "ln_f", {width}, model));
  if (gpt.tied_head()) return absl::OkStatus();
  return model->Add("lm_head.weight", {gpt.vocabulary(), width});
}

// Returns the members of the config.json in `folder`, or no members if there is
// no such file, or `folder` is empty.
nlohmann::ordered_json ReadConfig(const std::string& folder) {
  nlohmann::ordered_json config = nlohmann::ordered_json::object();
  if (folder.empty()) return config;
  const absl::StatusOr<std::string> text =
      ReadFile(absl::StrCat(folder, "/config.json"), kMaxConfigBytes);
  if (text.ok()) {
    const nlohmann::ordered_json kept = ParseOrderedJson(*text);
    if (kept.is_object()) config = kept;
  }
  return config;
}

// Sets the members of config.json that describe `gpt`.
void DescribeGpt(const GptSpec& gpt, nlohmann::ordered_json* members) {
  nlohmann::ordered_json& config = *members;
  config["architectures"] = {"GPT2LMHeadModel"};
  config["model_type"] = "gpt2";
  config["n_layer"] = gpt.layers();
  config["n_head"] = gpt.heads();
  config["n_embd"] = gpt.width();
  config["n_positions"] = gpt.context();
  config["n_inner"] = nullptr;
  config["vocab_size"] = gpt.vocabulary();
  config["activation_function"] = "gelu_new";
  config["layer_norm_epsilon"] = 1e-5;
  for (const char* rate : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) {
    config[rate] = gpt.dropout();
  }
  config["scale_attn_weights"] = true;
  config["tie_word_embeddings"] = gpt.tied_head();
  // Older releases of transformers read torch_dtype.
  for (const char* type : {"dtype", "torch_dtype"}) config[type] = "float32";
  // The defaults of transformers are tokens of GPT-2's own vocabulary.
  for (const char* token : {"bos_token_id", "eos_token_id"}) {
    if (!config.contains(token)) config[token] = nullptr;
  }
}

// Returns the number of classes of a classifier, or 0 if there is none.
absl::StatusOr<int64_t> ClassesOf(
    const std::map<std::string, RunTensor>& tensors,
    const TextEncoding& texts) {
  const auto found = tensors.find("classifier.bias");
  if (found == tensors.end()) return 0;
  const size_t classes = found->second.values.size();
  if (!texts.classes.empty() && texts.classes.size() != classes) {
    return absl::DataLossError(absl::StrCat("the final model has ", classes,
                                            " outputs, but data.json names ",
                                            texts.classes.size(), " classes"));
  }
  return static_cast<int64_t>(classes);
}

absl::Status CopyTokenizer(const std::string& from, const std::string& to) {
  for (const char* name : kTokenizerFiles) {
    const std::string path = absl::StrCat(from, "/", name);
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) continue;
    TRIBUTARY_ASSIGN_OR_RETURN(const std::string text,
                               ReadFile(path, kMaxTokenizerBytes));
    TRIBUTARY_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(to, "/", name),
                                                  {text}, FileSystem::Posix()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteHuggingFaceFolder(
    const JobSpec& job, const std::map<std::string, RunTensor>& tensors,
    const std::string& encoding, const std::string& folder) {
  const bool bert = job.model().has_bert();
  if (!job.model().has_gpt() && !bert) {
    return absl::InvalidArgumentError(
        "--format huggingface supports only models of kind gpt and bert; pass "
        "--format "
        "safetensors for a file with the names of this model's parameters");
  }
  const std::string& source = job.model().initial_weights().path();
  nlohmann::ordered_json config = ReadConfig(source);
  TextEncoding texts;
  // A data set of a program may have learned anything.
  if (bert && !encoding.empty() && !job.data().has_external()) {
    TRIBUTARY_ASSIGN_OR_RETURN(texts, TextEncoding::FromJson(encoding));
  }
  ExportedModel model(tensors);
  std::vector<NamedTensor> named;
  std::map<std::string, std::string> metadata;
  if (bert) {
    // As save_pretrained writes it, so that equal weights are equal bytes.
    metadata["format"] = "pt";
    TRIBUTARY_ASSIGN_OR_RETURN(named, BertTensors(job.model().bert(), tensors));
    TRIBUTARY_ASSIGN_OR_RETURN(const int64_t classes,
                               ClassesOf(tensors, texts));
    DescribeBert(job.model().bert(), classes, texts.classes, &config);
  } else {
    TRIBUTARY_RETURN_IF_ERROR(AddGpt(job.model().gpt(), &model));
    named = model.tensors();
    DescribeGpt(job.model().gpt(), &config);
  }
  TRIBUTARY_RETURN_IF_ERROR(WriteSafetensors(
      absl::StrCat(folder, "/model.safetensors"), named, metadata));
  TRIBUTARY_RETURN_IF_ERROR(
      WriteFileAtomically(absl::StrCat(folder, "/config.json"),
                          {config.dump(2), "\n"}, FileSystem::Posix()));
  if (!texts.tokenizer_json.empty()) {
    return WriteBertTokenizer(texts.tokenizer_json,
                              job.model().bert().positions(), folder);
  }
  return source.empty() ? absl::OkStatus() : CopyTokenizer(source, folder);
}

}  // namespace tributary

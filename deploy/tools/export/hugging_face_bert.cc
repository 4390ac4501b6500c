#include "deploy/tools/export/hugging_face_bert.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/tokenizer_files.h"

namespace tributary {
namespace {

using Shape = std::vector<int64_t>;

// The expected tensors, by name.
std::map<std::string, Shape> ShapesOf(const BertSpec& bert, int64_t classes) {
  const int64_t width = bert.width();
  const int64_t hidden =
      bert.intermediate() == 0 ? 4 * width : bert.intermediate();
  std::map<std::string, Shape> shapes;
  const auto linear = [&](const std::string& name, int64_t outputs,
                          int64_t inputs) {
    shapes[name + ".weight"] = {outputs, inputs};
    shapes[name + ".bias"] = {outputs};
  };
  const auto norm = [&](const std::string& name) {
    shapes[name + ".LayerNorm.weight"] = {width};
    shapes[name + ".LayerNorm.bias"] = {width};
  };
  const std::string embeddings = "bert.embeddings";
  shapes[embeddings + ".word_embeddings.weight"] = {bert.vocabulary(), width};
  shapes[embeddings + ".position_embeddings.weight"] = {bert.positions(),
                                                        width};
  shapes[embeddings + ".token_type_embeddings.weight"] = {bert.token_types(),
                                                          width};
  norm(embeddings);
  for (int64_t i = 0; i < bert.layers(); ++i) {
    const std::string block = absl::StrCat("bert.encoder.layer.", i);
    for (const char* part : {"query", "key", "value"}) {
      linear(absl::StrCat(block, ".attention.self.", part), width, width);
    }
    linear(block + ".attention.output.dense", width, width);
    norm(block + ".attention.output");
    linear(block + ".intermediate.dense", hidden, width);
    linear(block + ".output.dense", width, hidden);
    norm(block + ".output");
  }
  if (bert.head() == BertSpec::SEQUENCE_CLASSIFICATION) {
    linear("bert.pooler.dense", width, width);
    linear("classifier", classes, width);
  } else {
    linear("cls.predictions.transform.dense", width, width);
    norm("cls.predictions.transform");
    shapes["cls.predictions.bias"] = {bert.vocabulary()};
  }
  return shapes;
}

}  // namespace

absl::StatusOr<std::vector<NamedTensor>> BertTensors(
    const BertSpec& bert, const std::map<std::string, RunTensor>& tensors) {
  const auto classifier = tensors.find("classifier.bias");
  const int64_t classes =
      classifier == tensors.end() || classifier->second.shape.empty()
          ? 0
          : classifier->second.shape[0];
  std::vector<NamedTensor> named;
  for (const auto& [name, shape] : ShapesOf(bert, classes)) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) {
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
    named.push_back({name, shape, found->second.values.data()});
  }
  return named;
}

void DescribeBert(const BertSpec& bert, int64_t classes,
                  const std::vector<std::string>& names,
                  nlohmann::ordered_json* config) {
  const bool classifies = bert.head() == BertSpec::SEQUENCE_CLASSIFICATION;
  nlohmann::ordered_json& members = *config;
  members["architectures"] = {classifies ? "BertForSequenceClassification"
                                         : "BertForMaskedLM"};
  members["model_type"] = "bert";
  members["num_hidden_layers"] = bert.layers();
  members["num_attention_heads"] = bert.heads();
  members["hidden_size"] = bert.width();
  members["intermediate_size"] =
      bert.intermediate() == 0 ? 4 * bert.width() : bert.intermediate();
  members["max_position_embeddings"] = bert.positions();
  members["vocab_size"] = bert.vocabulary();
  members["type_vocab_size"] = bert.token_types();
  members["hidden_act"] = "gelu";
  members["layer_norm_eps"] = bert.layer_norm_epsilon();
  members["hidden_dropout_prob"] = bert.dropout();
  members["attention_probs_dropout_prob"] = bert.dropout();
  // It may have been set for another number of classes, or another dropout.
  members["classifier_dropout"] = nullptr;
  members["tie_word_embeddings"] = true;
  for (const char* type : {"dtype", "torch_dtype"}) members[type] = "float32";
  if (!classifies) return;
  nlohmann::ordered_json labels = nlohmann::ordered_json::object();
  nlohmann::ordered_json numbers = nlohmann::ordered_json::object();
  for (int64_t i = 0; i < classes; ++i) {
    const std::string name = names.empty() ? absl::StrCat("LABEL_", i)
                                           : names[static_cast<size_t>(i)];
    labels[absl::StrCat(i)] = name;
    numbers[name] = i;
  }
  members["id2label"] = labels;
  members["label2id"] = numbers;
}

absl::Status WriteBertTokenizer(const std::string& tokenizer_json,
                                int64_t positions, const std::string& folder) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                             ParseTokenizerJson(tokenizer_json));
  const nlohmann::json json = ParseJson(tokenizer_json);
  const nlohmann::json normalizer = json.value("normalizer", nlohmann::json());
  nlohmann::ordered_json config = {{"tokenizer_class", "BertTokenizer"},
                                   {"model_max_length", positions}};
  for (const auto& [member, option] :
       {std::make_pair("do_lower_case", "lowercase"),
        std::make_pair("strip_accents", "strip_accents"),
        std::make_pair("tokenize_chinese_chars", "handle_chinese_chars")}) {
    config[member] = normalizer.value(option, true);
  }
  for (const auto& [member, token] :
       {std::make_pair("unk_token", SpecialToken::kUnknown),
        std::make_pair("sep_token", SpecialToken::kSeparator),
        std::make_pair("pad_token", SpecialToken::kPadding),
        std::make_pair("cls_token", SpecialToken::kClassification),
        std::make_pair("mask_token", SpecialToken::kMask)}) {
    const absl::optional<int32_t> id = tokenizer->Special(token);
    if (!id.has_value()) continue;
    TRIBUTARY_ASSIGN_OR_RETURN(config[member], tokenizer->Decode({*id}));
  }
  // The file for programs that do not read tokenizer.json.
  std::string vocabulary;
  const nlohmann::json words = json["model"]["vocab"];
  std::vector<std::string> tokens(static_cast<size_t>(tokenizer->vocabulary()));
  for (const auto& [token, id] : words.items()) tokens[id] = token;
  for (const std::string& token : tokens) {
    absl::StrAppend(&vocabulary, token, "\n");
  }
  for (const auto& [name, text] :
       {std::make_pair("tokenizer.json", tokenizer_json),
        std::make_pair("tokenizer_config.json", config.dump(2)),
        std::make_pair("vocab.txt", vocabulary)}) {
    TRIBUTARY_RETURN_IF_ERROR(
        WriteFileAtomically(absl::StrCat(folder, "/", name), {text}));
  }
  return absl::OkStatus();
}

}  // namespace tributary

#include "deploy/tools/export/hugging_face.h"

#include <sys/stat.h>

#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "common/base/json.h"
#include "common/os/file.h"
#include "common/tensor_io/safetensors_file.h"
#include "common/tokenizer/open_tokenizer.h"
#include "common/tokenizer/word_piece_tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/model_harness.h"
#include "tests/support/status_matchers.h"
#include "worker/data/text/text_encoding.h"
#include "worker/models/initial_weights.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

class HuggingFaceTest : public ::testing::Test {
 protected:
  // Creates a model with random weights.
  void Make(const std::string& gpt) {
    *job_.mutable_model() =
        ParseModel(absl::StrCat("gpt { layers: 2 heads: 2 width: 8 context: 4 "
                                "vocabulary: 11 ",
                                gpt, " }"));
    harness_ = std::make_unique<ModelHarness>(job_.model(), TokenInfo(4, 11),
                                              /*max_samples=*/1);
    for (const Parameter& parameter : harness_->layout().parameters()) {
      const float* values = harness_->weights() + parameter.offset;
      tensors_[parameter.name] = {parameter.shape,
                                  {values, values + parameter.size}};
    }
  }
  // Creates a small bert with random weights.
  void MakeBert(BertSpec::Head head, int64_t classes) {
    *job_.mutable_model() = ParseModel(
        absl::StrCat("bert { layers: 1 heads: 2 width: 16 context: 4 "
                     "positions: 6 vocabulary: 11 head: ",
                     BertSpec::Head_Name(head), " }"));
    DataInfo info;
    info.kind = DataInfo::Kind::kSequences;
    info.sample_shape = {4};
    info.classes = classes;
    info.vocabulary = 11;
    info.token_types = 2;
    harness_ = std::make_unique<ModelHarness>(job_.model(), info,
                                              /*max_samples=*/1);
    for (const Parameter& parameter : harness_->layout().parameters()) {
      const float* values = harness_->weights() + parameter.offset;
      tensors_[parameter.name] = {parameter.shape,
                                  {values, values + parameter.size}};
    }
  }
  std::string Folder(const std::string& name) {
    const std::string path = absl::StrCat(
        testing::TempDir(), "/",
        testing::UnitTest::GetInstance()->current_test_info()->name(), "-",
        name);
    mkdir(path.c_str(), 0755);
    return path;
  }
  // Returns the weights that a model with the same sizes reads from `folder`.
  std::vector<float> Load(const std::string& folder) {
    InitialWeightsSpec spec;
    spec.set_path(folder);
    std::vector<float> weights(harness_->layout().arena_elements());
    EXPECT_EQ(LoadInitialWeights(spec, harness_->layout(), weights.data()),
              absl::OkStatus());
    return weights;
  }
  nlohmann::json Config(const std::string& folder) {
    return ParseJson(
        ReadFile(absl::StrCat(folder, "/config.json"), 1 << 20).value_or(""));
  }

  JobSpec job_;
  std::string encoding_;
  std::unique_ptr<ModelHarness> harness_;
  std::map<std::string, RunTensor> tensors_;
};

TEST_F(HuggingFaceTest, WritesWhatInitialWeightsReads) {
  for (const char* gpt : {"", "tied_head: false"}) {
    SCOPED_TRACE(gpt);
    tensors_.clear();
    Make(gpt);
    const std::string folder = Folder(*gpt == '\0' ? "tied" : "untied");
    ASSERT_TRUE(WriteHuggingFaceFolder(job_, tensors_, encoding_, folder).ok());
    EXPECT_EQ(Load(folder),
              std::vector<float>(
                  harness_->weights(),
                  harness_->weights() + harness_->layout().arena_elements()));
    const nlohmann::json config = Config(folder);
    EXPECT_EQ(config["n_layer"], 2);
    EXPECT_EQ(config["n_positions"], 4);
    EXPECT_EQ(config["vocab_size"], 11);
    EXPECT_EQ(config["tie_word_embeddings"], *gpt == '\0');
    EXPECT_TRUE(config["eos_token_id"].is_null());
  }
}

TEST_F(HuggingFaceTest, AModelWithoutBiasesHasBiasesOfZero) {
  Make("bias: false");
  const std::string folder = Folder("out");
  ASSERT_TRUE(WriteHuggingFaceFolder(job_, tensors_, encoding_, folder).ok());
  // A model with biases reads them, and the same weights.
  const std::map<std::string, RunTensor> weights = tensors_;
  Make("");
  const std::vector<float> loaded = Load(folder);
  for (const Parameter& parameter : harness_->layout().parameters()) {
    SCOPED_TRACE(parameter.name);
    const auto found = weights.find(parameter.name);
    const std::vector<float> expected =
        found != weights.end() ? found->second.values
                               : std::vector<float>(parameter.size);
    EXPECT_EQ(
        std::vector<float>(loaded.begin() + parameter.offset,
                           loaded.begin() + parameter.offset + parameter.size),
        expected);
  }
}

TEST_F(HuggingFaceTest, KeepsTheConfigAndTheTokenizerOfTheInitialWeights) {
  Make("");
  const std::string source = Folder("source");
  std::ofstream(source + "/config.json")
      << R"({"eos_token_id": 5, "n_layer": 99, "dtype": "bfloat16"})";
  std::ofstream(source + "/merges.txt") << "a b\n";
  job_.mutable_model()->mutable_initial_weights()->set_path(source);
  const std::string folder = Folder("out");
  ASSERT_TRUE(WriteHuggingFaceFolder(job_, tensors_, encoding_, folder).ok());
  const nlohmann::json config = Config(folder);
  EXPECT_EQ(config["eos_token_id"], 5);
  EXPECT_EQ(config["n_layer"], 2);
  EXPECT_EQ(config["dtype"], "float32");
  EXPECT_EQ(ReadFile(folder + "/merges.txt", 100).value_or(""), "a b\n");
}

TEST_F(HuggingFaceTest, BertReturnsWithEqualBytes) {
  MakeBert(BertSpec::SEQUENCE_CLASSIFICATION, 3);
  const std::string folder = Folder("out");
  ASSERT_EQ(WriteHuggingFaceFolder(job_, tensors_, encoding_, folder),
            absl::OkStatus());
  const nlohmann::json config = Config(folder);
  EXPECT_EQ(config["architectures"][0], "BertForSequenceClassification");
  EXPECT_EQ(config["hidden_size"], 16);
  EXPECT_EQ(config["intermediate_size"], 64);
  EXPECT_EQ(config["hidden_act"], "gelu");
  EXPECT_EQ(config["id2label"].size(), 3u);
  const std::vector<float> loaded = Load(folder);
  for (const Parameter& parameter : harness_->layout().parameters()) {
    EXPECT_EQ(
        std::vector<float>(loaded.begin() + parameter.offset,
                           loaded.begin() + parameter.offset + parameter.size),
        tensors_[parameter.name].values)
        << parameter.name;
  }
}

TEST_F(HuggingFaceTest, BertHasTheTokenizerAndTheClassesOfItsData) {
  MakeBert(BertSpec::SEQUENCE_CLASSIFICATION, 2);
  const auto tokenizer = WordPieceTokenizer::Create(
      {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"}, WordPieceOptions());
  TextEncoding texts;
  texts.classes = {"no", "yes"};
  texts.tokenizer_json = (*tokenizer)->ToJson();
  encoding_ = texts.ToJson();
  const std::string folder = Folder("out");
  ASSERT_TRUE(WriteHuggingFaceFolder(job_, tensors_, encoding_, folder).ok());
  const nlohmann::json config = Config(folder);
  EXPECT_EQ(config["id2label"], nlohmann::json({{"0", "no"}, {"1", "yes"}}));
  EXPECT_EQ(config["label2id"], nlohmann::json({{"no", 0}, {"yes", 1}}));
  EXPECT_EQ(ReadFile(folder + "/vocab.txt", 100).value_or(""),
            "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n");
  const auto opened = OpenTokenizer(folder);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->ToJson(), texts.tokenizer_json);
  const nlohmann::json settings =
      ParseJson(ReadFile(folder + "/tokenizer_config.json", 1000).value_or(""));
  EXPECT_EQ(settings["model_max_length"], 6);
  EXPECT_EQ(settings["do_lower_case"], true);

  texts.classes.push_back("perhaps");
  encoding_ = texts.ToJson();
  EXPECT_THAT(
      WriteHuggingFaceFolder(job_, tensors_, encoding_, Folder("wrong")),
      StatusIs(absl::StatusCode::kDataLoss,
               HasSubstr("has 2 outputs, but data.json names 3")));
}

// As in a file of a masked language model, from before layer norms were
// renamed, and of a model without a head.
TEST_F(HuggingFaceTest, BertReadsOldNamesAndPartsOfOtherHeads) {
  MakeBert(BertSpec::SEQUENCE_CLASSIFICATION, 3);
  const std::string folder = Folder("old");
  std::vector<NamedTensor> named;
  const float position = 0;
  named.push_back({"embeddings.position_ids", {1}, &position});
  named.push_back({"cls.seq_relationship.bias", {1}, &position});
  for (const auto& [name, tensor] : tensors_) {
    if (absl::StartsWith(name, "classifier.")) continue;
    std::string old =
        absl::StrReplaceAll(name, {{".LayerNorm.weight", ".LayerNorm.gamma"},
                                   {".LayerNorm.bias", ".LayerNorm.beta"}});
    old = std::string(absl::StripPrefix(old, "bert."));
    named.push_back({old, tensor.shape, tensor.values.data()});
  }
  ASSERT_TRUE(WriteSafetensors(folder + "/model.safetensors", named, {}).ok());
  InitialWeightsSpec spec;
  spec.set_path(folder);
  std::vector<float> weights(harness_->layout().arena_elements(), 9);
  EXPECT_THAT(
      LoadInitialWeights(spec, harness_->layout(), weights.data()),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("no tensor for classifier.weight, classifier.bias")));
  spec.set_strict(false);
  ASSERT_TRUE(
      LoadInitialWeights(spec, harness_->layout(), weights.data()).ok());
  for (const Parameter& parameter : harness_->layout().parameters()) {
    const bool classifier = absl::StartsWith(parameter.name, "classifier.");
    const float* found = &weights[parameter.offset];
    EXPECT_EQ(std::vector<float>(found, found + parameter.size),
              classifier ? std::vector<float>(parameter.size, 9)
                         : tensors_[parameter.name].values)
        << parameter.name;
  }
}

TEST_F(HuggingFaceTest, RefusesOtherModelsAndTensors) {
  Make("");
  const std::string folder = Folder("out");
  tensors_["transformer.wpe.weight"].shape = {8, 4};
  EXPECT_THAT(WriteHuggingFaceFolder(job_, tensors_, encoding_, folder),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("tensor transformer.wpe.weight")));
  tensors_.erase("transformer.wpe.weight");
  EXPECT_THAT(WriteHuggingFaceFolder(job_, tensors_, encoding_, folder),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("no tensor transformer.wpe.weight")));
  job_.mutable_model()->mutable_mlp();
  EXPECT_THAT(WriteHuggingFaceFolder(job_, tensors_, encoding_, folder),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("--format safetensors")));
}

}  // namespace
}  // namespace tributary

// ValidateJob of common/job/job.h: what it says of models.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "gtest/gtest.h"
#include "tests/common/job/job_cases.h"

namespace tributary {
namespace {

TEST(ValidateModelTest, NamesTheFieldAndTheValue) {
  ExpectValuesRefused(
      Mlp, {"model.mlp.hidden[1]=0", "model.mlp.hidden[0]=9223372036854775807",
            "model.mlp.dropout=1", "model.mlp.dropout=-0.1"});
  ExpectValuesRefused(
      Cnn, {"model.cnn.block[0].channels=0", "model.cnn.block[0].kernel=0",
            "model.cnn.block[1].stride=0", "model.cnn.block[1].padding=3",
            "model.cnn.block[1].padding=-2", "model.cnn.block[1].pool_size=0",
            "model.cnn.dropout=2"});
  ExpectValuesRefused(Resnet,
                      {"model.resnet.width=0", "model.label_smoothing=1"});
  ExpectValuesRefused(
      Bert, {"model.bert.layers=0", "model.bert.width=24", "model.bert.heads=7",
             "model.bert.context=513", "model.bert.context=1",
             "model.bert.vocabulary=1", "model.bert.token_types=0",
             "model.bert.intermediate=-1", "model.bert.dropout=1",
             "model.bert.layer_norm_epsilon=0", "model.bert.mask_probability=0",
             "model.bert.mask_probability=1"});
  ExpectValuesRefused(
      Gpt, {"model.gpt.layers=0", "model.gpt.width=0", "model.gpt.heads=0",
            "model.gpt.heads=5", "model.gpt.context=0", "model.gpt.dropout=1",
            "model.gpt.vocabulary=1", "model.gpt.vocabulary=50257",
            "model.gpt.vocabulary_multiple=0"});
}

TEST(ValidateModelTest, NamesTheField) {
  for (const auto base : {Regression, Synthetic, External}) {
    ExpectFieldsRefused(base, {"model.label_smoothing=0.1"});
  }
  ExpectFieldsRefused(Resnet,
                      {"model.resnet.layers=[1, 1, 1, 1, 1, 1, 1, 1, 1]"});
  const std::string classify = "model.bert.head=SEQUENCE_CLASSIFICATION; ";
  ExpectRefused({
      {Cnn, "model.cnn.block[2]={}", "model.cnn.block[2].channels: "},
      {Cnn, "model.cnn.hidden=[-5]", "model.cnn.hidden[0]: -5 "},
      {Resnet, "model.resnet.layers=[2, 0]", "model.resnet.layers[1]: 0 "},
      {Bert, classify + "model.bert.mask_probability=0.1",
       "model.bert.mask_probability: "},
      {Bert, classify + "data.random.classes=1", "data.random.classes: 1 "},
      {Bert, "data.csv={train: \"a.csv\"}", "data: model.bert "},
      {Bert, "data.text={path: \"a\"}", "data.text.tokenizer: "},
      {Bert, "data.tokens={path: \"a\"}", "data.tokens.tokenizer: "},
      {Bert, classify + "data.text={path: \"a\" tokenizer: \"v\"}",
       "model.bert.head: is SEQUENCE_CLASSIFICATION"},
      {Bert, "data.labeled_text={train: \"a\" tokenizer: \"v\"}",
       "model.bert.head: is MASKED_LANGUAGE_MODEL"},
      {Bert, "data.external.name=texts; model.bert.mask_probability=0.2",
       "model.bert.mask_probability: "},
      {Gpt, "model.gpt.context=65536; batch.global=16777216",
       "model.gpt.context: 65536 "},
      {Gpt, "model.gpt={preset: GPT2_SMALL}", "model.gpt.vocabulary: 50257 "},
      {Gpt, "model.gpt={preset: GPT2_SMALL heads: 10 vocabulary: 256}",
       "model.gpt.heads: 10 "},
      {Gpt, "model.gpt={preset: PRESET_UNSPECIFIED}", "model.gpt.preset: "},
  });
}

TEST(ValidateModelTest, NamesTheFieldOfLabeledTexts) {
  const std::pair<const char*, const char*> cases[] = {
      {"tokenizer: \"v\"", ".train: "},
      {"train: \"a\"", ".tokenizer: "},
      {"train: \"a\" tokenizer: \"v\" test: \"\"", ".test: "},
      {"train: \"a\" tokenizer: \"v\" second_text_column: \"\"",
       ".second_text_column: "},
      {"train: \"a\" tokenizer: \"v\" label_column: \"text\"", ": text_column"},
  };
  for (const auto& [fields, message] : cases) {
    ExpectRefused({{Bert,
                    absl::StrCat("model.bert.head=SEQUENCE_CLASSIFICATION; "
                                 "data.labeled_text={",
                                 fields, "}"),
                    absl::StrCat("data.labeled_text", message)}});
  }
}

TEST(ValidateModelTest, RefusesMoreLayersThanAllowed) {
  std::string hidden = "2";
  for (int i = 0; i < 1000; ++i) hidden += ",2";
  ExpectFieldsRefused(Mlp, {absl::StrCat("model.mlp.hidden=[", hidden, "]")});
}

TEST(ValidateModelTest, AcceptsModelsThatReadFeatures) {
  ExpectAccepted(
      Dlrm, {"model.dlrm.bottom=[64]; model.loss=BINARY_CROSS_ENTROPY",
             "model.deepfm.hidden=[64]",
             "model.dcn_v2.rank=2; sparse.feature[1].table=narrow",
             "model.wide_and_deep={}; sparse.feature[1].table=narrow",
             "model.matrix_factorization.item_feature=C2",
             "model.matrix_factorization.item_feature=C2; "
             "model.loss=MEAN_SQUARED_ERROR",
             "model.matrix_factorization.item_feature=C2; "
             "model.matrix_factorization.hidden=[8]; sparse.table[1].dim=2; "
             "sparse.feature[1].table=narrow",
             "evaluation.every_steps=1; stop_when.metric=EVALUATION_AUC; "
             "stop_when.target=0.8"});
}

TEST(ValidateModelTest, BinaryCrossEntropyIsTheDefaultWithFeatures) {
  EXPECT_EQ(ResolveJob(Dlrm()).model().loss(), ModelSpec::BINARY_CROSS_ENTROPY);
  EXPECT_EQ(ResolveJob(Mlp()).model().loss(), ModelSpec::CROSS_ENTROPY);
}

TEST(ValidateModelTest, NamesTheFieldOfModelsThatReadFeatures) {
  const std::string towers = "model.matrix_factorization.item_feature=C2; ";
  ExpectRefused({
      {Dlrm, "model.dlrm.top=[0]", "model.dlrm.top[0]: 0 "},
      {Dlrm, "model.dlrm.bottom=[0]", "model.dlrm.bottom[0]: 0 "},
      {Dlrm, "model.deepfm.hidden=[0]", "model.deepfm.hidden[0]: 0 "},
      {Dlrm, "model.deepfm.dropout=1", "model.deepfm.dropout: 1 "},
      {Dlrm, "model.dcn_v2.cross_layers=0", "model.dcn_v2.cross_layers: 0 "},
      {Dlrm, "model.dcn_v2.rank=-1", "model.dcn_v2.rank: -1 "},
      {Dlrm, "model.dcn_v2.hidden=[0]", "model.dcn_v2.hidden[0]: 0 "},
      {Dlrm, "model.dcn_v2.dropout=1", "model.dcn_v2.dropout: 1 "},
      {Dlrm, "model.wide_and_deep.hidden=[0]", "model.wide_and_deep.hidden[0]"},
      {Dlrm, "model.wide_and_deep.dropout=1", "model.wide_and_deep.dropout: 1"},
      {Dlrm, towers + "model.matrix_factorization.hidden=[0]",
       "model.matrix_factorization.hidden[0]: 0 "},
      {Dlrm, "model.matrix_factorization={}",
       "model.matrix_factorization.item_feature: is required"},
      {Dlrm, "model.matrix_factorization.item_feature=C1",
       "model.matrix_factorization.item_feature: 'C1'"},
      {Dlrm, "model.matrix_factorization.item_feature=C3",
       "model.matrix_factorization.item_feature: 'C3'"},
      {Dlrm, "model.loss=CROSS_ENTROPY", "model.loss: CROSS_ENTROPY "},
      {Dlrm, "model.loss=MEAN_SQUARED_ERROR", "model.loss: MEAN_SQUARED_ERROR"},
      {Dlrm, "model.label_smoothing=0.1", "model.label_smoothing: "},
      {Mlp, "model.loss=BINARY_CROSS_ENTROPY", "model.loss: "},
      {Dlrm, "sparse.feature[1].table=narrow",
       "sparse.feature[1].table: has dim 1"},
      {Dlrm, "model.deepfm={}; sparse.feature[0].table=narrow",
       "sparse.feature[0].table: has dim 1"},
      {Dlrm, towers + "sparse.table[1].dim=2; sparse.feature[1].table=narrow",
       "sparse.feature[1].table: has dim 2"},
      {Dlrm,
       towers + "model.matrix_factorization.hidden=[8]; "
                "sparse.feature[1].table=narrow",
       "sparse.feature[1].table: has dim 1"},
      {Dlrm, "model.mlp={}", "sparse: model.mlp "},
      {Dlrm, "parallel.sharded_weights=true", "parallel.sharded_weights: "},
      {Mlp, "model.dlrm={}; data.csv={train: \"a.csv\"}",
       "sparse: is required "},
      {Mlp, "evaluation.every_steps=1; stop_when.metric=EVALUATION_AUC",
       "stop_when.metric: is EVALUATION_AUC"},
  });
}

}  // namespace
}  // namespace tributary

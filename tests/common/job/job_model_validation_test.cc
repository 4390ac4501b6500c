// ValidateJob of common/job/job.h: what it says of models.
#include <string>

#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/job/job_cases.h"

namespace tributary {
namespace {

JobSpec Classifier() {
  JobSpec job = Bert();
  job.mutable_model()->mutable_bert()->set_head(
      BertSpec::SEQUENCE_CLASSIFICATION);
  return job;
}

using ::testing::StartsWith;

TEST(ValidateModelTest, NamesTheFieldAndWhatIsWrong) {
  const Case cases[] = {
      {Mlp,
       {"model.mlp.hidden[1]=0"},
       "model.mlp.hidden[1]: 0 is not between 1 and 1048576"},
      {Mlp,
       {"model.mlp.hidden[0]=9223372036854775807"},
       "model.mlp.hidden[0]: 9223372036854775807 is not between"},
      {Mlp,
       {"model.mlp.dropout=1"},
       "model.mlp.dropout: 1 is not at least 0 and below 1"},
      {Mlp, {"model.mlp.dropout=-0.1"}, "model.mlp.dropout: -0.1 is not"},
      {Cnn,
       {"model.cnn.block[2]={}"},
       "model.cnn.block[2].channels: is required"},
      {Cnn,
       {"model.cnn.block[0].channels=0"},
       "model.cnn.block[0].channels: 0 is not between"},
      {Cnn,
       {"model.cnn.block[0].kernel=0"},
       "model.cnn.block[0].kernel: 0 is not between"},
      {Cnn,
       {"model.cnn.block[1].stride=0"},
       "model.cnn.block[1].stride: 0 is not between"},
      {Cnn,
       {"model.cnn.block[1].padding=3"},
       "model.cnn.block[1].padding: 3 is not between 0 and kernel - 1 = 2"},
      {Cnn,
       {"model.cnn.block[1].padding=-2"},
       "model.cnn.block[1].padding: -2 is not between"},
      {Cnn,
       {"model.cnn.block[1].pool_size=0"},
       "model.cnn.block[1].pool_size: 0 is not between"},
      {Cnn, {"model.cnn.hidden=[-5]"}, "model.cnn.hidden[0]: -5 is not"},
      {Cnn, {"model.cnn.dropout=2"}, "model.cnn.dropout: 2 is not"},
      {Resnet,
       {"model.resnet.layers=[2, 0]"},
       "model.resnet.layers[1]: 0 is not between 1 and 100"},
      {Resnet,
       {"model.resnet.layers=[1, 1, 1, 1, 1, 1, 1, 1, 1]"},
       "model.resnet.layers: there are 9 stages, at most 8 are allowed"},
      {Resnet,
       {"model.resnet.width=0"},
       "model.resnet.width: 0 is not between 1 and 512"},
      {Resnet,
       {"model.label_smoothing=1"},
       "model.label_smoothing: 1 is not at least 0 and below 1"},
      {Regression,
       {"model.label_smoothing=0.1"},
       "model.label_smoothing: does not apply to model.loss "
       "MEAN_SQUARED_ERROR"},
      {Synthetic,
       {"model.label_smoothing=0.1"},
       "model.label_smoothing: does not apply to model.synthetic"},
      {External,
       {"model.label_smoothing=0.1"},
       "model.label_smoothing: does not apply to model.external"},
      {Bert, {"model.bert.layers=0"}, "model.bert.layers: 0 is not between"},
      {Bert,
       {"model.bert.width=24"},
       "model.bert.width: 24 is not a multiple of 16"},
      {Bert,
       {"model.bert.heads=7"},
       "model.bert.heads: 7 does not divide model.bert.width 768"},
      {Bert,
       {"model.bert.context=513"},
       "model.bert.context: 513 is not between 2 and 512"},
      {Bert,
       {"model.bert.context=1"},
       "model.bert.context: 1 is not between 2 and 512"},
      {Bert,
       {"model.bert.vocabulary=1"},
       "model.bert.vocabulary: 1 is not between"},
      {Bert,
       {"model.bert.token_types=0"},
       "model.bert.token_types: 0 is not between"},
      {Bert,
       {"model.bert.intermediate=-1"},
       "model.bert.intermediate: -1 is not between"},
      {Bert,
       {"model.bert.dropout=1"},
       "model.bert.dropout: 1 is not at least 0 and below 1"},
      {Bert,
       {"model.bert.layer_norm_epsilon=0"},
       "model.bert.layer_norm_epsilon: 0 is not"},
      {Bert,
       {"model.bert.mask_probability=0"},
       "model.bert.mask_probability: 0 is not"},
      {Bert,
       {"model.bert.mask_probability=1"},
       "model.bert.mask_probability: 1 is not"},
      {Bert,
       {"model.bert.head=SEQUENCE_CLASSIFICATION",
        "model.bert.mask_probability=0.1"},
       "model.bert.mask_probability: has no effect with head"},
      {Bert,
       {"model.bert.head=SEQUENCE_CLASSIFICATION", "data.random.classes=1"},
       "data.random.classes: 1 is not between"},
      {Bert,
       {"data.csv={train: \"a.csv\"}"},
       "data: model.bert reads data.text, data.tokens, data.labeled_text"},
      {Bert,
       {"data.text={path: \"a.txt\"}"},
       "data.text.tokenizer: is required with model.bert: name a WordPiece"},
      {Bert,
       {"data.tokens={path: \"a.bin\"}"},
       "data.tokens.tokenizer: is required with model.bert"},
      {Bert,
       {"data.text={path: \"a.txt\" tokenizer: \"vocab.txt\"}",
        "model.bert.head=SEQUENCE_CLASSIFICATION"},
       "model.bert.head: is SEQUENCE_CLASSIFICATION, which needs texts with "
       "labels; set data.labeled_text"},
      {Bert,
       {"data.labeled_text={train: \"a.csv\" tokenizer: \"vocab.txt\"}"},
       "model.bert.head: is MASKED_LANGUAGE_MODEL, but data.labeled_text has "
       "classes"},
      {Classifier,
       {"data.labeled_text={tokenizer: \"vocab.txt\"}"},
       "data.labeled_text.train: is required"},
      {Classifier,
       {"data.labeled_text={train: \"a.csv\"}"},
       "data.labeled_text.tokenizer: is required"},
      {Classifier,
       {"data.labeled_text={train: \"a.csv\" tokenizer: \"v\" test: \"\"}"},
       "data.labeled_text.test: is empty"},
      {Classifier,
       {"data.labeled_text={train: \"a.csv\" tokenizer: \"v\" "
        "second_text_column: \"\"}"},
       "data.labeled_text.second_text_column: is empty"},
      {Classifier,
       {"data.labeled_text={train: \"a.csv\" tokenizer: \"v\" "
        "label_column: \"text\"}"},
       "data.labeled_text: text_column, second_text_column and label_column "
       "must name different columns"},
      {Bert,
       {"data.external={name: \"texts\"}", "model.bert.mask_probability=0.2"},
       "model.bert.mask_probability: does not apply to data.external"},
      {Gpt, {"model.gpt.layers=0"}, "model.gpt.layers: 0 is not between"},
      {Gpt, {"model.gpt.width=0"}, "model.gpt.width: 0 is not between"},
      {Gpt, {"model.gpt.heads=0"}, "model.gpt.heads: 0 is not between"},
      {Gpt,
       {"model.gpt.heads=5"},
       "model.gpt.heads: 5 does not divide model.gpt.width 128"},
      {Gpt, {"model.gpt.context=0"}, "model.gpt.context: 0 is not between"},
      {Gpt,
       {"model.gpt.context=65536", "batch.global=16777216"},
       "model.gpt.context: 65536 with a batch of 16777216 needs more memory"},
      {Gpt, {"model.gpt.dropout=1"}, "model.gpt.dropout: 1 is not"},
      {Gpt, {"model.gpt.vocabulary=1"}, "model.gpt.vocabulary: 1 is not"},
      {Gpt,
       {"model.gpt.vocabulary=50257"},
       "model.gpt.vocabulary: 50257 tokens, but those of data.text are"},
      {Gpt,
       {"model.gpt={preset: GPT2_SMALL}"},
       "model.gpt.vocabulary: 50257 tokens, but those of data.text are the 256 "
       "byte values; set data.text.tokenizer, or set it to 256"},
      {Gpt,
       {"model.gpt={preset: GPT2_SMALL heads: 10 vocabulary: 256}"},
       "model.gpt.heads: 10 does not divide model.gpt.width 768"},
      {Gpt, {"model.gpt={preset: PRESET_UNSPECIFIED}"}, "model.gpt.preset: "},
      {Gpt,
       {"model.gpt.vocabulary_multiple=0"},
       "model.gpt.vocabulary_multiple: 0 is not"},
  };
  for (const Case& c : cases) ExpectRefused(c);
}

TEST(ValidateModelTest, RefusesMoreLayersThanAllowed) {
  JobSpec job = Mlp();
  for (int i = 0; i < 1001; ++i) {
    job.mutable_model()->mutable_mlp()->add_hidden(2);
  }
  EXPECT_THAT(std::string(ValidateJob(job).message()),
              StartsWith("model.mlp.hidden: has 1003 layers"));
}

}  // namespace
}  // namespace tributary

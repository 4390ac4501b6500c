#include "worker/data/labeled_text_data_set.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/data/data_test_util.h"
#include "tests/worker/data/text_test_util.h"
#include "worker/data/text/text_encoding.h"

namespace tributary {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kContext = 4;

class LabeledTextDataSetTest : public testing::Test {
 protected:
  LabeledTextDataSetTest() {
    spec_.set_train(folder_.Write("train.csv", "text,label\na,x\nb c d,y\n"));
    spec_.set_tokenizer(folder_.Write("vocab.txt", SmallVocabularyText()));
  }
  absl::StatusOr<std::unique_ptr<LabeledTextDataSet>> Open() const {
    return LabeledTextDataSet::Open(spec_, {"model.bert", kContext, kTokens});
  }

  DataFolder folder_;
  LabeledTextSpec spec_;
};

TEST_F(LabeledTextDataSetTest, ReadsSamples) {
  spec_.set_test(folder_.Write("test.csv", "label,text\ny,z\n"));
  const auto data = Open();
  ASSERT_EQ(data.status(), absl::OkStatus());
  const DataInfo& info = (*data)->info();
  EXPECT_EQ(info.kind, DataInfo::Kind::kSequences);
  EXPECT_EQ(info.classes, 2);
  EXPECT_EQ(info.vocabulary, kTokens);
  EXPECT_EQ(info.token_types, 1);
  EXPECT_FALSE(info.token_labels);
  EXPECT_EQ((*data)->train_samples(), 2);
  EXPECT_EQ((*data)->evaluation_samples(), 1);
  Batch batch;
  (*data)->ReadTrain(/*epoch=*/0, {1, 0}, &batch);
  EXPECT_THAT(batch.tokens, ElementsAre(kCls, kWord + 1, kWord + 2, kSep, kCls,
                                        kWord, kSep, kPad));
  EXPECT_THAT(batch.lengths, ElementsAre(4, 3));
  EXPECT_THAT(batch.labels, ElementsAre(1, 0));
  (*data)->ReadEvaluation(0, 1, &batch);
  EXPECT_THAT(batch.tokens, ElementsAre(kCls, kWord + 25, kSep, kPad));
  EXPECT_THAT(batch.labels, ElementsAre(1));
  const auto encoding = TextEncoding::FromJson((*data)->encoding());
  ASSERT_EQ(encoding.status(), absl::OkStatus());
  EXPECT_THAT(encoding->classes, ElementsAre("x", "y"));
}

TEST_F(LabeledTextDataSetTest, WithoutTestFileNothingIsHeldOut) {
  EXPECT_EQ((*Open())->evaluation_samples(), 0);
}

TEST_F(LabeledTextDataSetTest, NamesWhatIsWrong) {
  spec_.set_test(folder_.Write("test.csv", "text,label\nz,neither\n"));
  EXPECT_THAT(Open().status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("test.csv:2: the label \"neither\"")));
  spec_.set_test(folder_.PathOf("none.csv"));
  EXPECT_THAT(Open().status(), StatusIs(absl::StatusCode::kNotFound,
                                        HasSubstr("none.csv: cannot open")));
  spec_.set_tokenizer(folder_.PathOf("none"));
  EXPECT_THAT(Open().status(),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("data.labeled_text.tokenizer: ")));
}

}  // namespace
}  // namespace tributary

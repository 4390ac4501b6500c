#include "deploy/launch/train/trained_model.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/os/file.h"
#include "common/tensor_io/safetensors_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/model_harness.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kVocabulary = 32;  // Of golden/gpt2.

// Token n is the UTF-8 encoding of U+20AC in three tokens, and otherwise a
// letter. Token 31 is the end of a text.
class FakeTokenizer : public Tokenizer {
 public:
  explicit FakeTokenizer(int64_t vocabulary) : vocabulary_(vocabulary) {}

  int64_t vocabulary() const override { return vocabulary_; }
  absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text) const override {
    std::vector<int32_t> ids;
    for (const char c : text) ids.push_back(c - 'a');
    return ids;
  }
  absl::StatusOr<std::string> Decode(
      absl::Span<const int32_t> ids) const override {
    std::string text;
    for (const int32_t id : ids) {
      text += id < 26 ? static_cast<char>('a' + id) : "\xE2\x82\xAC"[id % 3];
    }
    return text;
  }
  absl::optional<int32_t> Special(SpecialToken token) const override {
    if (token == SpecialToken::kEndOfText) return 31;
    return absl::nullopt;
  }

 private:
  const int64_t vocabulary_;
};

class TrainedModelTest : public testing::Test {
 protected:
  TrainedModelTest()
      : folder_(absl::StrCat(
            testing::TempDir(), "/",
            testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::create_directories(folder_);
    request_.options.tokens = 40;
    request_.open_tokenizer = [this](const std::string& path)
        -> absl::StatusOr<std::unique_ptr<Tokenizer>> {
      opened_ = path;
      if (tokenizer_ == 0) return absl::NotFoundError(path);
      return std::unique_ptr<Tokenizer>(new FakeTokenizer(tokenizer_));
    };
  }

  // Makes the folder one of Hugging Face, with the weights of golden/gpt2.
  void MakeHuggingFace() {
    std::filesystem::copy_file(
        "tests/worker/models/golden/gpt2/model.safetensors",
        folder_ + "/model.safetensors",
        std::filesystem::copy_options::overwrite_existing);
    Write("config.json",
          "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, "
          "\"n_embd\": 16, \"n_positions\": 8, \"vocab_size\": 32}");
  }

  // Makes the folder one of a run.
  void MakeRun(const std::string& gpt, int64_t vocabulary,
               const std::string& data) {
    ModelHarness harness(ParseModel(gpt), TokenInfo(8, vocabulary), 1);
    std::vector<NamedTensor> tensors;
    for (const Parameter& parameter : harness.layout().parameters()) {
      tensors.push_back({parameter.name, parameter.shape,
                         harness.weights() + parameter.offset});
    }
    std::filesystem::create_directories(folder_ + "/final");
    EXPECT_TRUE(
        WriteSafetensors(folder_ + "/final/model.safetensors", tensors, {})
            .ok());
    Write("job.textproto",
          absl::StrCat("model { ", gpt, " } data { ", data,
                       " } batch { global: 1 } steps: 1 "
                       "optimizer { sgd { learning_rate: 1 } }"));
  }

  void Write(const std::string& name, const std::string& text) {
    EXPECT_EQ(WriteFileAtomically(absl::StrCat(folder_, "/", name), {text}),
              absl::OkStatus());
  }

  absl::Status Sample() {
    pieces_.clear();
    return SampleTrainedModel(
        folder_, request_, DeviceName(),
        [this](absl::string_view text) { pieces_.emplace_back(text); });
  }
  std::string Text() {
    EXPECT_EQ(Sample(), absl::OkStatus());
    std::string text;
    for (const std::string& piece : pieces_) text += piece;
    return text;
  }

  const std::string folder_;
  SampleRequest request_;
  int64_t tokenizer_ = kVocabulary;  // Its vocabulary; 0: there is none.
  std::string opened_;
  std::vector<std::string> pieces_;
};

TEST_F(TrainedModelTest, HuggingFaceFoldersBringTheirTokenizer) {
  MakeHuggingFace();
  request_.prompt = "hello";
  const std::string text = Text();
  EXPECT_EQ(opened_, folder_);
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(Text(), text);
  request_.options.seed = 9;
  EXPECT_NE(Text(), text);
}

TEST_F(TrainedModelTest, EndOfTextEndsTheText) {
  MakeHuggingFace();
  request_.options.tokens = 100000;
  const std::string text = Text();
  EXPECT_LT(text.size(), 10000u);
}

TEST_F(TrainedModelTest, PiecesAreValidUtf8) {
  MakeHuggingFace();
  request_.options.temperature = 5;
  for (uint64_t seed = 1; seed < 20; ++seed) {
    request_.options.seed = seed;
    ASSERT_TRUE(Sample().ok());
    for (const std::string& piece : pieces_) {
      // The only characters of more than one byte are U+20AC and U+FFFD.
      const int64_t bytes = std::count_if(
          piece.begin(), piece.end(), [](char c) { return (c & 0x80) != 0; });
      int64_t whole = 0;
      for (const char* character : {"\xE2\x82\xAC", "\xEF\xBF\xBD"}) {
        for (size_t at = piece.find(character); at != std::string::npos;
             at = piece.find(character, at + 3)) {
          whole += 3;
        }
      }
      EXPECT_EQ(bytes, whole);
    }
  }
}

TEST_F(TrainedModelTest, ModelsOfOtherTokensNeedATokenizer) {
  MakeHuggingFace();
  tokenizer_ = 0;
  const auto is_missing = StatusIs(
      absl::StatusCode::kInvalidArgument,
      AllOf(HasSubstr("32 tokens"), HasSubstr("pass --tokenizer PATH")));
  EXPECT_THAT(Sample(), is_missing);
  MakeRun("gpt { layers: 1 heads: 2 width: 16 context: 8 vocabulary: 300 }",
          300, "random {}");
  EXPECT_THAT(Sample(), StatusIs(absl::StatusCode::kInvalidArgument,
                                 HasSubstr("the model has 300 tokens")));
  // A tokenizer that the user names must exist.
  request_.tokenizer = "mine.json";
  EXPECT_THAT(Sample(), StatusIs(absl::StatusCode::kNotFound, "mine.json"));
}

TEST_F(TrainedModelTest, RefusesATokenizerWithMoreTokensThanTheModel) {
  MakeHuggingFace();
  tokenizer_ = 33;
  request_.tokenizer = "mine.json";
  EXPECT_THAT(Sample(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("mine.json: the tokenizer has 33 tokens")));
}

TEST_F(TrainedModelTest, RunsOfBytesNeedNoTokenizer) {
  MakeRun("gpt { layers: 1 heads: 2 width: 16 context: 8 }", 256,
          "text { path: 'x' }");
  request_.bytes = 20;
  const std::string text = Text();
  EXPECT_EQ(text.size(), 20u);
  EXPECT_EQ(opened_, "");
  request_.bytes = 7;
  EXPECT_EQ(Text(), text.substr(0, 7));
  request_.bytes = 0;
  EXPECT_EQ(Text(), "");
  // More bytes than the context, and the limit of tokens.
  request_.bytes.reset();
  EXPECT_EQ(Text().size(), 40u);
  // An empty prompt is the start of a line.
  request_.bytes = 20;
  request_.prompt = "\n";
  EXPECT_EQ(Text(), text);
}

TEST_F(TrainedModelTest, RunsUseTheTokenizerOfTheJob) {
  MakeRun("gpt { layers: 1 heads: 2 width: 16 context: 8 vocabulary: 40 }", 40,
          "random {}");
  JobSpec job;
  job.mutable_model()->mutable_gpt()->set_vocabulary(40);
  EXPECT_FALSE(KnowsTokens(job));
  job.mutable_data()->mutable_tokens()->set_tokenizer("t.json");
  EXPECT_TRUE(KnowsTokens(job));
  job.mutable_data()->mutable_text();
  EXPECT_FALSE(KnowsTokens(job));
  job.mutable_data()->mutable_text()->set_tokenizer("t.json");
  EXPECT_TRUE(KnowsTokens(job));
  request_.tokenizer = "mine.json";
  Text();
  EXPECT_EQ(opened_, "mine.json");
}

TEST_F(TrainedModelTest, NamesWhatIsWrong) {
  EXPECT_THAT(Sample(), StatusIs(absl::StatusCode::kNotFound));
  Write("config.json", "{\"model_type\": \"bert\"}");
  EXPECT_THAT(Sample(), StatusIs(absl::StatusCode::kInvalidArgument,
                                 HasSubstr("model_type is \"bert\"")));
  MakeRun("gpt { layers: 1 heads: 2 width: 16 context: 8 }", 256,
          "text { path: 'x' }");
  std::filesystem::remove(folder_ + "/final/model.safetensors");
  EXPECT_THAT(Sample(), StatusIs(absl::StatusCode::kNotFound));
  request_.options.top_p = 2;
  EXPECT_THAT(Sample(), StatusIs(absl::StatusCode::kInvalidArgument,
                                 HasSubstr("top_p is 2")));
}

}  // namespace
}  // namespace tributary

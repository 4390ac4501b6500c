#include "worker/models/gpt2_config.h"

#include <filesystem>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/os/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/model_harness.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

absl::StatusOr<GptSpec> Parse(const std::string& members) {
  return ParseGpt2Config(
      absl::StrCat("{\"model_type\": \"gpt2\"", members, "}"), "gpt2.json");
}

TEST(Gpt2ConfigTest, ReadsTheSizes) {
  const auto gpt = Parse(
      ", \"n_layer\": 2, \"n_head\": 4, \"n_embd\": 32, \"n_positions\": 9,"
      " \"vocab_size\": 77, \"tie_word_embeddings\": false, \"n_inner\": null,"
      " \"activation_function\": \"gelu_new\", \"layer_norm_epsilon\": 1e-05,"
      " \"resid_pdrop\": 0.1");
  ASSERT_TRUE(gpt.ok()) << gpt.status();
  EXPECT_EQ(gpt->layers(), 2);
  EXPECT_EQ(gpt->heads(), 4);
  EXPECT_EQ(gpt->width(), 32);
  EXPECT_EQ(gpt->context(), 9);
  EXPECT_EQ(gpt->vocabulary(), 77);
  EXPECT_FALSE(gpt->tied_head());
}

TEST(Gpt2ConfigTest, AbsentMembersAreThoseOfGpt2Small) {
  const auto gpt = Parse("");
  ASSERT_TRUE(gpt.ok()) << gpt.status();
  EXPECT_EQ(gpt->layers(), 12);
  EXPECT_EQ(gpt->heads(), 12);
  EXPECT_EQ(gpt->width(), 768);
  EXPECT_EQ(gpt->context(), 1024);
  EXPECT_EQ(gpt->vocabulary(), 50257);
  EXPECT_TRUE(gpt->tied_head());
}

TEST(Gpt2ConfigTest, ShortensAWrongMemberInTheError) {
  const absl::Status status =
      Parse(absl::StrCat(", \"n_layer\": \"", std::string(100000, 'x'), "\""))
          .status();
  EXPECT_LT(status.message().size(), 300u);
}

TEST(Gpt2ConfigTest, NamesTheMemberThatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"\"n_layer\": \"2\"", "gpt2.json: n_layer is \"2\";"},
      {"\"n_embd\": 0", "n_embd is 0;"},
      {"\"vocab_size\": 1e30", "vocab_size is 1e+30;"},
      {"\"n_head\": 7", "n_head is 7; expected a divisor of n_embd 768"},
      {"\"n_inner\": 100", "n_inner is 100; model.gpt supports only 3072"},
      {"\"activation_function\": \"gelu\"", "activation_function is \"gelu\";"},
      {"\"layer_norm_epsilon\": 1e-6", "layer_norm_epsilon is 1e-06"},
      {"\"scale_attn_by_inverse_layer_idx\": true", "_layer_idx is true;"},
      {"\"tie_word_embeddings\": 1", "tie_word_embeddings is 1;"},
  };
  for (const auto& [member, message] : cases) {
    EXPECT_THAT(
        Parse(absl::StrCat(", ", member)),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }
  const std::pair<const char*, const char*> files[] = {
      {"{}", "x: model_type is missing;"},
      {"{\"model_type\": \"bert\"}", "model_type is \"bert\";"},
      {"[1", "x is not a JSON object"}};
  for (const auto& [text, message] : files) {
    EXPECT_THAT(
        ParseGpt2Config(text, "x"),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }
}

class CheckGpt2ConfigTest : public testing::Test {
 protected:
  CheckGpt2ConfigTest() : folder_(testing::TempDir() + "/gpt2") {
    std::filesystem::create_directories(folder_);
    EXPECT_EQ(WriteFileAtomically(
                  folder_ + "/config.json",
                  {"{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 4, "
                   "\"n_embd\": 32, \"n_positions\": 9, \"vocab_size\": 77}"}),
              absl::OkStatus());
  }

  absl::Status Check(const std::string& gpt, const std::string& path) const {
    ModelSpec model = ParseModel(absl::StrCat("gpt { ", gpt, " }"));
    model.mutable_initial_weights()->set_path(path);
    return CheckGpt2Config(model);
  }

  const std::string folder_;
};

TEST_F(CheckGpt2ConfigTest, AcceptsTheSameSizes) {
  EXPECT_TRUE(
      Check("layers: 2 heads: 4 width: 32 context: 9 vocabulary: 77", folder_)
          .ok());
}

TEST_F(CheckGpt2ConfigTest, NamesEveryFieldThatDiffers) {
  const auto is_wrong = StatusIs(
      absl::StatusCode::kInvalidArgument,
      AllOf(HasSubstr("gpt2/config.json"),
            HasSubstr("model.gpt.layers is 3, but n_layer is 2; "
                      "model.gpt.heads is 8, but n_head is 4; "
                      "model.gpt.tied_head is 0, but tie_word_embeddings is "
                      "1. Change"),
            Not(HasSubstr("width"))));
  const std::string gpt =
      "layers: 3 heads: 8 width: 32 context: 9 vocabulary: 77 tied_head: false";
  EXPECT_THAT(Check(gpt, folder_), is_wrong);
  // A file has the config.json beside it.
  const std::string file = folder_ + "/model.safetensors";
  ASSERT_TRUE(WriteFileAtomically(file, {"x"}).ok());
  EXPECT_THAT(Check(gpt, file), is_wrong);
}

TEST_F(CheckGpt2ConfigTest, FoldersWithoutConfigAreNotChecked) {
  EXPECT_TRUE(Check("layers: 3", testing::TempDir()).ok());
}

}  // namespace
}  // namespace tributary

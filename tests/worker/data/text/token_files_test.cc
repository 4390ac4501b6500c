#include "worker/data/text/token_files.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/data/data_test_util.h"
#include "worker/data/files/data_fingerprint.h"
#include "worker/data/text/text_tokens.h"
#include "worker/data/token_data_set.h"

namespace tributary {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kFileVocabulary = 300;

template <typename Number>
std::string Numbers(const std::vector<int>& values) {
  std::string bytes;
  for (const int value : values) {
    const Number number = static_cast<Number>(value);
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  return bytes;
}

std::string LlmC(int32_t magic, int32_t version, int32_t tokens,
                 const std::string& body) {
  std::string header(1024, '\0');
  const int32_t numbers[3] = {magic, version, tokens};
  std::memcpy(&header[0], numbers, sizeof(numbers));
  return header + body;
}

std::string Npy(const std::string& type, const std::string& shape,
                const std::string& body) {
  const std::string text =
      absl::StrCat("{'descr': '", type,
                   "', 'fortran_order': False, 'shape': ", shape, ", }\n");
  std::string header("\x93NUMPY\x01\x00", 8);
  header.push_back(static_cast<char>(text.size()));
  header.push_back('\0');
  return header + text + body;
}

std::vector<int> CountingTokens(int count) {
  std::vector<int> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 1);
  return values;
}

absl::StatusOr<std::unique_ptr<TokenDataSet>> OpenTokens(const TokensSpec& spec,
                                                         int64_t context) {
  const TextModel model = {"model.gpt", context, kFileVocabulary};
  absl::StatusOr<TokenData> data = OpenTokenFiles(spec, model);
  if (!data.ok()) return data.status();
  return TokenDataSet::Create(*std::move(data), model, /*seed=*/1);
}

class TokenFilesTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<TokenDataSet>> Open(
      const std::string& bytes,
      TokensSpec::Format format = TokensSpec::AUTO) const {
    TokensSpec spec;
    spec.add_path(folder_.Write("tokens.bin", bytes));
    spec.set_format(format);
    return OpenTokens(spec, /*context=*/8);
  }
  void ExpectError(const std::string& bytes, TokensSpec::Format format,
                   const std::string& part) const {
    EXPECT_THAT(Open(bytes, format).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("tokens.bin: "), HasSubstr(part))));
  }

  DataFolder folder_;
};

TEST_F(TokenFilesTest, EveryFormatYieldsTheSameSamples) {
  const std::vector<int> values = CountingTokens(200);
  const std::string narrow = Numbers<uint16_t>(values);
  const std::string wide = Numbers<uint32_t>(values);
  const std::vector<std::pair<std::string, TokensSpec::Format>> files = {
      {narrow, TokensSpec::AUTO},
      {narrow, TokensSpec::UINT16},
      {wide, TokensSpec::UINT32},
      {LlmC(20240520, 1, 200, narrow), TokensSpec::AUTO},
      {LlmC(20240801, 7, 200, wide), TokensSpec::LLM_C},
      {Npy("<u2", "(200,)", narrow), TokensSpec::AUTO},
      {Npy("<i8", "(200,)", Numbers<int64_t>(values)), TokensSpec::NPY},
  };
  for (const auto& [bytes, format] : files) {
    const auto data = Open(bytes, format);
    ASSERT_EQ(data.status(), absl::OkStatus());
    EXPECT_EQ((*data)->info().classes, kFileVocabulary);
    EXPECT_EQ((*data)->train_samples(), 180 / 8 - 1);
    EXPECT_EQ((*data)->evaluation_samples(), 3);
    Batch batch;
    (*data)->ReadTrain(/*epoch=*/0, {3}, &batch);
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(batch.tokens[i], batch.tokens[0] + i);
      EXPECT_EQ(batch.labels[i], batch.tokens[i] + 1);
    }
    (*data)->ReadEvaluation(2, 3, &batch);
    EXPECT_THAT(batch.tokens,
                testing::ElementsAre(197, 198, 199, 0, 0, 0, 0, 0));
    EXPECT_THAT(batch.labels,
                testing::ElementsAre(198, 199, 200, -1, -1, -1, -1, -1));
  }
}

TEST_F(TokenFilesTest, HasTheWindowsOfTheTextWithTheseBytes) {
  const std::vector<int> values = CountingTokens(200);
  const auto tokens = Open(Numbers<uint16_t>(values));
  TextSpec spec;
  spec.add_path(folder_.Write("text", Numbers<uint8_t>(values)));
  const auto text =
      TokenDataSet::Create(*OpenTextTokens(spec), {"model.gpt", 8, 256},
                           /*seed=*/1);
  ASSERT_EQ(tokens.status(), absl::OkStatus());
  ASSERT_EQ(text.status(), absl::OkStatus());
  for (int64_t epoch = 0; epoch < 9; ++epoch) {
    Batch a;
    Batch b;
    (*tokens)->ReadTrain(epoch, {0, 20, 7}, &a);
    (*text)->ReadTrain(epoch, {0, 20, 7}, &b);
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.labels, b.labels);
  }
}

TEST_F(TokenFilesTest, WindowsCrossFilesAndValidationFilesAreHeldOut) {
  TokensSpec spec;
  spec.add_path(folder_.Write("a", Numbers<uint16_t>({1, 2, 3, 4, 5})));
  spec.add_path(folder_.Write("b", Numbers<uint16_t>({6, 7, 8, 9, 10})));
  spec.add_validation_path(folder_.Write("c", Numbers<uint16_t>({11, 12})));
  const auto data = OpenTokens(spec, /*context=*/5);
  ASSERT_EQ(data.status(), absl::OkStatus());
  EXPECT_EQ((*data)->train_samples(), 1);
  bool crossed = false;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    Batch batch;
    (*data)->ReadTrain(epoch, {0}, &batch);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(batch.tokens[i], batch.tokens[0] + i);
      EXPECT_EQ(batch.labels[i], batch.tokens[i] + 1);
    }
    crossed = crossed || (batch.tokens[0] < 6 && batch.tokens[4] > 5);
  }
  EXPECT_TRUE(crossed);
  Batch batch;
  (*data)->ReadEvaluation(0, 1, &batch);
  EXPECT_THAT(batch.tokens, testing::ElementsAre(11, 0, 0, 0, 0));
  EXPECT_THAT(batch.labels, testing::ElementsAre(12, -1, -1, -1, -1));
}

TEST_F(TokenFilesTest, AFileThatBecomesShorterIsAnError) {
  const auto data = Open(Numbers<uint16_t>(CountingTokens(200)));
  ASSERT_EQ(data.status(), absl::OkStatus());
  std::filesystem::resize_file(folder_.PathOf("tokens.bin"), 50);
  Batch batch;
  (*data)->ReadTrain(/*epoch=*/0, {0}, &batch);
  EXPECT_EQ(batch.error, absl::OkStatus());
  const auto shorter =
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("tokens.bin: has become shorter"),
                     HasSubstr(" of 400 does not exist")));
  (*data)->ReadTrain(/*epoch=*/0, {0, 3}, &batch);
  EXPECT_THAT(batch.error, shorter);
  (*data)->ReadEvaluation(0, 1, &batch);
  EXPECT_THAT(batch.error, StatusIs(absl::StatusCode::kInvalidArgument,
                                    HasSubstr("has become shorter")));
}

TEST_F(TokenFilesTest, ATokenThatBecomesTooLargeIsAnError) {
  const auto data = Open(Numbers<uint16_t>(CountingTokens(200)));
  ASSERT_EQ(data.status(), absl::OkStatus());
  folder_.Write("tokens.bin", Numbers<uint16_t>(std::vector<int>(200, 300)));
  Batch batch;
  (*data)->ReadTrain(/*epoch=*/0, {3}, &batch);
  EXPECT_THAT(batch.error, StatusIs(absl::StatusCode::kInvalidArgument,
                                    HasSubstr("token 300 is not below")));
}

TEST_F(TokenFilesTest, ReadsFilesOfSeveralPieces) {
  std::vector<int> values(600000);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<int>(i % 251);
  }
  const std::string bytes = Numbers<uint16_t>(values);
  const auto data = Open(bytes);
  ASSERT_EQ(data.status(), absl::OkStatus());
  EXPECT_EQ((*data)->fingerprint(), DataFingerprint({bytes}));
  Batch batch;
  (*data)->ReadEvaluation(0, 1, &batch);
  EXPECT_EQ(batch.tokens[0], 540000 % 251);
  values[500000] = 300;
  EXPECT_THAT(Open(Numbers<uint16_t>(values)).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("byte 1000000: token 300")));
}

TEST_F(TokenFilesTest, FingerprintDependsOnTheContents) {
  std::vector<int> values = CountingTokens(200);
  const uint64_t before = (*Open(Numbers<uint16_t>(values)))->fingerprint();
  values[100] += 1;
  EXPECT_NE((*Open(Numbers<uint16_t>(values)))->fingerprint(), before);
}

TEST_F(TokenFilesTest, NamesTheFileAndTheError) {
  const std::string body = Numbers<uint16_t>(CountingTokens(200));
  ExpectError(Numbers<uint16_t>({1, 300}), TokensSpec::AUTO,
              "byte 2: token 300 is not below model.gpt.vocabulary 300");
  ExpectError("abc", TokensSpec::UINT16, "3 bytes are no multiple of 2");
  ExpectError("", TokensSpec::AUTO, "is empty");
  ExpectError(body, TokensSpec::LLM_C, "expected the magic number of llm.c");
  ExpectError(LlmC(20240520, 2, 200, body), TokensSpec::AUTO,
              "version 2, expected 1");
  ExpectError(LlmC(20240520, 1, 201, body), TokensSpec::AUTO,
              "201 tokens, but there are 400 bytes");
  ExpectError(Npy("<f4", "(100,)", body), TokensSpec::AUTO,
              "the type \"<f4\", expected a little-endian integer");
  ExpectError(Npy("<u2", "(20, 10)", body), TokensSpec::AUTO,
              "expected one dimension");
  ExpectError(Npy("<u2", "(201,)", body), TokensSpec::NPY, "201 tokens");
  ExpectError("\x1f\x8b..", TokensSpec::AUTO, "is compressed");
}

TEST_F(TokenFilesTest, TooFewTokensAreAnError) {
  EXPECT_THAT(
      Open(Numbers<uint16_t>(CountingTokens(15))).status(),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          HasSubstr("13 tokens are left for training; model.gpt.context 8")));
}

}  // namespace
}  // namespace tributary

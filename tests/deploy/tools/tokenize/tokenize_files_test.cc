#include "deploy/tools/tokenize/tokenize_files.h"

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/os/file.h"
#include "common/tokenizer/open_tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "worker/data/formats/token_format.h"

namespace tributary {
namespace {

using testing::HasSubstr;

constexpr char kTokenizer[] = "tests/common/tokenizer/golden/byte_pairs.json";

std::string PathOf(const std::string& name) {
  return absl::StrCat(std::getenv("TEST_TMPDIR"), "/", name);
}

std::string Read(const std::string& path) {
  return ReadFile(path, 64 << 20).value();
}

// Several pieces of text.
std::string WriteText() {
  const std::string once = Read("tests/common/tokenizer/golden/text");
  std::string text;
  for (int i = 0; i < 250; ++i) text += once;
  const std::string path = PathOf("text");
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::string Tokenize(const std::string& format, int threads) {
  TokenizeOptions options;
  options.files = {WriteText(), "tests/common/tokenizer/golden/text"};
  options.tokenizer = kTokenizer;
  options.output = PathOf(absl::StrCat("tokens.", format));
  options.format = format;
  options.threads = threads;
  const auto done = TokenizeFiles(options, [](const TokenizeProgress&) {});
  EXPECT_EQ(done.status(), absl::OkStatus());
  return Read(options.output);
}

absl::StatusOr<TokenFormat> FormatOf(absl::string_view bytes,
                                     TokensSpec::Format format) {
  return ParseTokenFormat(bytes.substr(0, kTokenHeaderBytes),
                          static_cast<int64_t>(bytes.size()), format, "file");
}

int64_t TokenOf(absl::string_view bytes, const TokenFormat& format,
                int64_t index) {
  return TokenAt(bytes.substr(static_cast<size_t>(format.begin)), format,
                 index);
}

TEST(TokenizeFilesTest, IdsAreThoseOfTheWholeTextsForAnyNumberOfThreads) {
  const auto tokenizer = *OpenTokenizer(kTokenizer);
  std::vector<int32_t> expected = *tokenizer->Encode(Read(WriteText()));
  expected.push_back(0);  // <|endoftext|>
  const std::vector<int32_t> golden =
      *tokenizer->Encode(Read("tests/common/tokenizer/golden/text"));
  expected.insert(expected.end(), golden.begin(), golden.end());
  expected.push_back(0);
  const std::string bytes = Tokenize("uint16", /*threads=*/1);
  EXPECT_EQ(Tokenize("uint16", /*threads=*/3), bytes);
  const TokenFormat format = *FormatOf(bytes, TokensSpec::UINT16);
  ASSERT_EQ(format.tokens, static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(TokenOf(bytes, format, static_cast<int64_t>(i)), expected[i]);
  }
}

TEST(TokenizeFilesTest, EveryFormatIsADataSetWithTheSameTokens) {
  const std::string narrow = Tokenize("uint16", 2);
  const TokenFormat first = *FormatOf(narrow, TokensSpec::UINT16);
  for (const std::string name : {"llm_c", "uint32", "npy"}) {
    const std::string bytes = Tokenize(name, 2);
    const auto format = FormatOf(
        bytes, name == "uint32" ? TokensSpec::UINT32 : TokensSpec::AUTO);
    ASSERT_EQ(format.status(), absl::OkStatus());
    ASSERT_EQ(format->tokens, first.tokens);
    for (int64_t i = 0; i < first.tokens; i += 97) {
      ASSERT_EQ(TokenOf(bytes, *format, i), TokenOf(narrow, first, i));
    }
  }
}

TEST(TokenizeFilesTest, SaysThatTheOutputCannotBeCreated) {
  TokenizeOptions options;
  options.files = {"tests/common/tokenizer/golden/text"};
  options.tokenizer = kTokenizer;
  options.output = PathOf("no-such-folder/out");
  EXPECT_THAT(std::string(TokenizeFiles(options, [](const TokenizeProgress&) {})
                              .status()
                              .message()),
              HasSubstr("cannot create"));
}

TEST(TokenizeFilesTest, AnErrorLeavesTheOutputAsItWas) {
  TokenizeOptions options;
  options.files = {"tests/common/tokenizer/golden/text", "no-such-file"};
  options.tokenizer = kTokenizer;
  options.output = PathOf("kept");
  std::ofstream(options.output) << "old";
  EXPECT_THAT(TokenizeFiles(options, [](const TokenizeProgress&) {}).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no-such-file")));
  EXPECT_EQ(Read(options.output), "old");
}

// A short text had "0.0 MB".
TEST(TextSizeTest, ChoosesTheUnit) {
  EXPECT_EQ(TextSize(0), "0 bytes");
  EXPECT_EQ(TextSize(1), "1 byte");
  EXPECT_EQ(TextSize(999), "999 bytes");
  EXPECT_EQ(TextSize(12345), "12.3 kB");
  EXPECT_EQ(TextSize(999960), "1.0 MB");
  EXPECT_EQ(TextSize(4500000), "4.5 MB");
}

}  // namespace
}  // namespace tributary

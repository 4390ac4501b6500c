// Files that describe tokenizers, and texts. Input: a byte that chooses what
// the rest is.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/tokenizer/byte_pair_tokenizer.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/tokenizer_files.h"
#include "common/tokenizer/word_piece_tokenizer.h"
#include "tests/fuzz/fuzz_target.h"

namespace tributary {
namespace {

constexpr char kText[] = "ab'll  \xc3\xa9\xff 12\n\nabc";

// Checks that all ids are tokens. Returns the decoded text.
std::string Decoded(const Tokenizer& tokenizer, absl::string_view text) {
  const auto ids = tokenizer.Encode(text);
  TRIBUTARY_FUZZ_CHECK(ids.ok());
  const auto decoded = tokenizer.Decode(*ids);
  TRIBUTARY_FUZZ_CHECK(decoded.ok());
  return *decoded;
}

void RunModel(absl::StatusOr<BytePairModel> model) {
  if (!model.ok()) return;
  const auto tokenizer = BytePairTokenizer::Create(*std::move(model));
  if (!tokenizer.ok()) return;
  TRIBUTARY_FUZZ_CHECK(Decoded(**tokenizer, kText) == kText);
}

void RunVocabulary(absl::string_view bytes) {
  auto tokens = ParseVocabularyText(bytes);
  if (!tokens.ok()) return;
  const auto tokenizer = WordPieceTokenizer::Create(*std::move(tokens), {});
  if (tokenizer.ok()) Decoded(**tokenizer, kText);
}

// A tokenizer of all bytes and some pairs of them.
const BytePairTokenizer& BytePairs() {
  static const BytePairTokenizer* const tokenizer = [] {
    BytePairModel model;
    for (int byte = 0; byte < 256; ++byte) {
      model.tokens.emplace_back(1, static_cast<char>(byte));
    }
    for (int i = 0; i < 1000; ++i) {
      const int32_t left = i * 7 % 256;
      const int32_t right = i * 13 % 256 + (i % 2) * (i / 4);
      const std::string whole = model.tokens[left] + model.tokens[right];
      bool known = false;
      for (const std::string& token : model.tokens) {
        known = known || token == whole;
      }
      if (known) continue;
      model.tokens.push_back(whole);
      model.merges.emplace_back(left, right);
    }
    return BytePairTokenizer::Create(std::move(model)).value().release();
  }();
  return *tokenizer;
}

const WordPieceTokenizer& WordPieces() {
  static const WordPieceTokenizer* const tokenizer =
      WordPieceTokenizer::Create({"[UNK]", "a", "##b", "e", "!"}, {})
          .value()
          .release();
  return *tokenizer;
}

void Run(absl::string_view bytes, uint8_t choice) {
  switch (choice % 7) {
    case 0: {
      const auto tokenizer = ParseTokenizerJson(bytes);
      if (tokenizer.ok()) Decoded(**tokenizer, kText);
      return;
    }
    case 1:
      return RunModel(ParseTiktoken(bytes));
    case 2:
      return RunVocabulary(bytes);
    case 3:
      return RunModel(ParseVocabularyAndMerges(
          R"({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3})", bytes));
    case 4: {
      BasicTokenizerOptions options;
      (void)ParseTokenizerConfig(bytes, &options);
      return;
    }
    case 5:
      TRIBUTARY_FUZZ_CHECK(Decoded(BytePairs(), bytes) == bytes);
      return;
    default:
      Decoded(WordPieces(), bytes);
  }
}

}  // namespace
}  // namespace tributary

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  tributary::Run({reinterpret_cast<const char*>(data) + 1, size - 1}, data[0]);
  return 0;
}

// A small WordPiece vocabulary for tests of texts.
#ifndef TRIBUTARY_TESTS_WORKER_DATA_TEXT_TEST_UTIL_H_
#define TRIBUTARY_TESTS_WORKER_DATA_TEXT_TEST_UTIL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/tokenizer/word_piece_tokenizer.h"

namespace tributary {

// The ids of the special tokens.
enum : int32_t { kPad = 0, kUnk = 1, kCls = 2, kSep = 3, kMask = 4 };
// The ids of the words "a" to "z" are kWord to kWord + 25.
inline constexpr int32_t kWord = 5;
inline constexpr int32_t kTokens = kWord + 26;

// Returns the tokens in the order of their ids.
inline std::vector<std::string> SmallVocabulary() {
  std::vector<std::string> tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]",
                                     "[MASK]"};
  for (char word = 'a'; word <= 'z'; ++word) tokens.emplace_back(1, word);
  return tokens;
}

// Returns the contents of vocab.txt.
inline std::string SmallVocabularyText() {
  std::string text;
  for (const std::string& token : SmallVocabulary()) text += token + "\n";
  return text;
}

inline std::unique_ptr<Tokenizer> SmallTokenizer() {
  return *WordPieceTokenizer::Create(SmallVocabulary(), {});
}

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_DATA_TEXT_TEST_UTIL_H_

// Code for reading byte-level BPE tokenizers that the parsers of vocab.json,
// merges.txt and tokenizer.json share.
#ifndef TRIBUTARY_COMMON_TOKENIZER_BYTE_PAIR_FILES_H_
#define TRIBUTARY_COMMON_TOKENIZER_BYTE_PAIR_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tokenizer/byte_pair_tokenizer.h"
#include "nlohmann/json_fwd.hpp"

namespace tributary {

// Reads a vocabulary: a JSON object that maps tokens to ids. Sets `*names` to
// the tokens, indexed by id, with an empty string for each id that no token
// has. Returns InvalidArgument if `json` is not such an object, if an id is
// negative or too large, or if two tokens have the same id.
absl::Status ReadVocabulary(const nlohmann::json& json,
                            std::vector<std::string>* names);

// Sets names[id] to the token `name`, and enlarges `*names` if necessary.
// Returns InvalidArgument if the name is empty, the id is negative or too
// large, or a different token has the id.
absl::Status AddName(const std::string& name, int64_t id,
                     std::vector<std::string>* names);

// Builds a BytePairModel from tokens in which characters represent bytes (see
// byte_alphabet.h).
class BytePairFiles {
 public:
  // `names` contains the tokens, indexed by id. Tokens for which
  // IsSpecialTokenName returns true become special tokens.
  explicit BytePairFiles(std::vector<std::string> names);

  // Makes the token with this id a special token.
  void AddSpecial(int32_t id) { model_.special.insert(id); }
  // Adds a merge of the tokens `left` and `right`, with a lower priority than
  // all merges before it. Returns InvalidArgument if one of them is not in the
  // vocabulary.
  absl::Status AddMerge(absl::string_view left, absl::string_view right);
  // Returns the model. Call only once. Returns Unimplemented if a token that is
  // not special contains a character that represents no byte.
  absl::StatusOr<BytePairModel> Finish();

 private:
  BytePairModel model_;
  std::vector<std::string> names_;
  absl::flat_hash_map<std::string, int32_t> ids_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TOKENIZER_BYTE_PAIR_FILES_H_

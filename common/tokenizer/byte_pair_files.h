// What vocab.json and merges.txt have in common with tokenizer.json.
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

// Reads a JSON object from token to id. `names` receives the tokens in the
// order of their ids; an empty name is an id that no token has. Returns
// InvalidArgument if it is not such an object, an id is negative or too large,
// or two tokens have the same id.
absl::Status ReadVocabulary(const nlohmann::json& json,
                            std::vector<std::string>* names);

// Adds a token to the names. Returns InvalidArgument if the id is too large or
// another token has it.
absl::Status AddName(const std::string& name, int64_t id,
                     std::vector<std::string>* names);

// Collects a BytePairModel from tokens whose characters stand for bytes (see
// byte_alphabet.h).
class BytePairFiles {
 public:
  // `names` are the tokens in the order of their ids. Tokens that
  // IsSpecialTokenName names are special.
  explicit BytePairFiles(std::vector<std::string> names);

  // Makes the token special.
  void AddSpecial(int32_t id) { model_.special.insert(id); }
  // Adds a merge of two tokens. Returns InvalidArgument if one of them is not
  // in the vocabulary.
  absl::Status AddMerge(absl::string_view left, absl::string_view right);
  // Returns the model. Call once. Returns Unimplemented if a token that is not
  // special contains a character that stands for no byte.
  absl::StatusOr<BytePairModel> Finish();

 private:
  BytePairModel model_;
  std::vector<std::string> names_;
  absl::flat_hash_map<std::string, int32_t> ids_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TOKENIZER_BYTE_PAIR_FILES_H_

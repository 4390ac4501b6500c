// The facts about the training texts that are stored with a model, for
// prediction.
#ifndef TRIBUTARY_WORKER_DATA_TEXT_TEXT_ENCODING_H_
#define TRIBUTARY_WORKER_DATA_TEXT_TEXT_ENCODING_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tokenizer/tokenizer.h"

namespace tributary {

struct TextEncoding {
  // The tokenizer, in the format of tokenizer.json.
  std::string tokenizer_json;
  // The names of the classes in the order of their numbers. Empty for a masked
  // language model.
  std::vector<std::string> classes;

  // Returns the JSON object {"classes": [...], "format": "tributary-text-1",
  // "tokenizer": {...}}.
  std::string ToJson() const;
  // Parses a string that ToJson has returned. Accepts arbitrary bytes. Returns
  // InvalidArgument, with the reason, if `json` is malformed. The tokenizer
  // itself is not checked.
  static absl::StatusOr<TextEncoding> FromJson(absl::string_view json);
};

// Returns the tokenizer.json of a tokenizer, which the job's field `field`
// names. Returns InvalidArgument if the tokenizer is not WordPiece.
absl::StatusOr<std::string> WordPieceJson(const Tokenizer& tokenizer,
                                          const std::string& field);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_TEXT_TEXT_ENCODING_H_

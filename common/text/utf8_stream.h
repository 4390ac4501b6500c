// Splits a stream of bytes into pieces of whole UTF-8 characters.
#ifndef TRIBUTARY_COMMON_TEXT_UTF8_STREAM_H_
#define TRIBUTARY_COMMON_TEXT_UTF8_STREAM_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tributary {

// Receives text in arbitrary pieces, such as the bytes of one token after the
// other, and returns it in pieces that end with whole characters. Not
// thread-safe.
class Utf8Stream {
 public:
  // With `replace_invalid`, invalid bytes become U+FFFD, one for each sequence
  // that no character begins with, as in Python's errors='replace'. Otherwise
  // they are kept.
  explicit Utf8Stream(bool replace_invalid)
      : replace_invalid_(replace_invalid) {}

  // Returns the text up to the last byte that completes a character, or that no
  // further byte can make valid. Keeps the other bytes, at most three.
  std::string Add(absl::string_view bytes);
  // Returns the bytes that are left, which are not a whole character.
  std::string Finish();

 private:
  std::string Take(bool at_end);

  const bool replace_invalid_;
  std::string pending_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TEXT_UTF8_STREAM_H_

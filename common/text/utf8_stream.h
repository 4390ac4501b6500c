// Splits a stream of bytes into pieces of whole UTF-8 characters.
#ifndef TRIBUTARY_COMMON_TEXT_UTF8_STREAM_H_
#define TRIBUTARY_COMMON_TEXT_UTF8_STREAM_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tributary {

// Receives UTF-8 text in arbitrary pieces, such as the bytes of one token at a
// time, and returns it in pieces that end with whole characters. Not
// thread-safe.
class Utf8Stream {
 public:
  // If `replace_invalid` is true, replaces each invalid byte sequence by one
  // U+FFFD, as Python's errors='replace' does. Otherwise, invalid bytes are
  // returned unchanged.
  explicit Utf8Stream(bool replace_invalid)
      : replace_invalid_(replace_invalid) {}

  // Adds `bytes` to the text. Returns the new text, without the bytes at its
  // end, at most three, that may be the beginning of a character. Keeps these
  // bytes for the next call.
  std::string Add(absl::string_view bytes);
  // Call at the end of the text. Returns the incomplete character that Add has
  // kept, or U+FFFD in its place if `replace_invalid` is true. Returns an empty
  // string if there is none.
  std::string Finish();

 private:
  std::string Take(bool at_end);

  const bool replace_invalid_;
  std::string pending_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TEXT_UTF8_STREAM_H_

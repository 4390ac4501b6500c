#include "common/text/utf8_stream.h"

#include <string>

#include "gtest/gtest.h"

namespace tributary {
namespace {

// Returns the pieces that the stream returns for each byte of `text`, and for
// the end, separated by bars.
std::string Pieces(const std::string& text, bool replace_invalid = true) {
  Utf8Stream stream(replace_invalid);
  std::string pieces;
  for (const char c : text) {
    pieces += stream.Add(std::string(1, c)) + "|";
  }
  return pieces + stream.Finish();
}

// Like Pieces, for the whole text at a time.
std::string Whole(const std::string& text, bool replace_invalid = true) {
  Utf8Stream stream(replace_invalid);
  std::string all = stream.Add(text);
  return all + stream.Finish();
}

TEST(Utf8StreamTest, KeepsTheBytesOfACharacterTogether) {
  EXPECT_EQ(Pieces("a\xC3\xBC"), "a||\xC3\xBC|");
  EXPECT_EQ(Pieces("\xE2\x82\xAC!"), "||\xE2\x82\xAC|!|");
  EXPECT_EQ(Pieces("\xF0\x9F\x98\x80"), "|||\xF0\x9F\x98\x80|");
  EXPECT_EQ(Pieces(""), "");
}

TEST(Utf8StreamTest, ReplacesEachInvalidSequence) {
  EXPECT_EQ(Pieces("\x80"), "\xEF\xBF\xBD|");
  EXPECT_EQ(Pieces("\xE2\x82\x41"), "||\xEF\xBF\xBD\x41|");
  EXPECT_EQ(Pieces("\xE2\x82"), "||\xEF\xBF\xBD");
  // Too long an encoding, a surrogate and a number above U+10FFFF: no character
  // begins with their first two bytes.
  const std::string three = "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD";
  EXPECT_EQ(Whole("\xE0\x80\x80"), three);
  EXPECT_EQ(Whole("\xED\xA0\x80"), three);
  EXPECT_EQ(Whole("\xF4\x90\x80\x80"), three + "\xEF\xBF\xBD");
  EXPECT_EQ(Whole("\xC0\xFF"), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Utf8StreamTest, KeepsInvalidBytesOnRequest) {
  EXPECT_EQ(Whole("\xE2\x82\x41\xFF", /*replace_invalid=*/false),
            "\xE2\x82\x41\xFF");
  EXPECT_EQ(Pieces("\xE2\x82\x41", /*replace_invalid=*/false),
            "||\xE2\x82\x41|");
}

}  // namespace
}  // namespace tributary

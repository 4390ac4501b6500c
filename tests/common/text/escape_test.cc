#include "common/text/escape.h"

#include "gtest/gtest.h"

namespace tributary {
namespace {

TEST(EscapeForTerminalTest, KeepsTextAndEscapesTheRest) {
  EXPECT_EQ(EscapeForTerminal("a b\n\tc~"), "a b\n\tc~");
  EXPECT_EQ(EscapeForTerminal("\x1b[2J\r\x07\x7f"), "\\x1b[2J\\x0d\\x07\\x7f");
  EXPECT_EQ(EscapeForTerminal("gr\xc3\xbc\xc3\x9f \xe2\x82\xac"),
            "gr\xc3\xbc\xc3\x9f \xe2\x82\xac");
  // Truncated, overlong, surrogate, C1 control, beyond Unicode.
  EXPECT_EQ(EscapeForTerminal("\xe2\x82"), "\\xe2\\x82");
  EXPECT_EQ(EscapeForTerminal("\xc0\xaf"), "\\xc0\\xaf");
  EXPECT_EQ(EscapeForTerminal("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(EscapeForTerminal("\xc2\x9b"), "\\xc2\\x9b");
  EXPECT_EQ(EscapeForTerminal("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

}  // namespace
}  // namespace tributary

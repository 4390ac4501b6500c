#include "deploy/tools/chart/svg_canvas.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/xml_checker.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Markup, an attribute's end, control characters, bytes that are no UTF-8, and
// a code point that XML has no place for.
constexpr char kHostile[] =
    "<script>\"a\" & 'b'</script>\x01\x1b[31m \xff\xfe \xEF\xBF\xBF \xC3\xA9";

TEST(EscapeXmlTest, LeavesNothingThatXmlCannotHold) {
  EXPECT_EQ(EscapeXml("a < b & \"c\" > 'd'"),
            "a &lt; b &amp; &quot;c&quot; &gt; &#39;d&#39;");
  EXPECT_EQ(EscapeXml("\x01\xff"), "\\x01\\xff");
  EXPECT_EQ(EscapeXml("\xEF\xBF\xBF"), "\\xef\\xbf\\xbf");
  EXPECT_EQ(EscapeXml("\xC3\xA9\n"), "\xC3\xA9\n");
}

TEST(SvgCanvasTest, IsWellFormedWhateverTheTextsSay) {
  SvgCanvas canvas(300, 200, kHostile);
  SvgTextStyle style;
  style.color = kHostile;
  style.upwards = true;
  canvas.Text({1, 2}, kHostile, style);
  canvas.Rectangle({1, 2, 3, 4}, kHostile, kHostile);
  canvas.Circle({1, 2}, 3, kHostile, kHostile);
  canvas.BeginClip({0, 0, 10, 10});
  canvas.Line({0, 0}, {1, 1}, {kHostile, 1, kHostile});
  canvas.Polyline({{0, 0}, {1.25, 2}}, {"#000000"});
  canvas.EndClip();
  canvas.Outline({0, 0, 1, 1}, {});
  const std::string svg = canvas.Finish();
  EXPECT_EQ(CheckXml(svg), "");
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
}

TEST(SvgCanvasTest, DrawsWhereItIsTold) {
  SvgCanvas canvas(300, 200, "t");
  canvas.Rectangle({1, 2, 3, 4.26}, "#ff0000", "three");
  canvas.Polyline({{0, 1}, {2, 3}}, {"#00ff00", 2.5, "4 2"});
  const std::string svg = canvas.Finish();
  EXPECT_THAT(svg, HasSubstr("width=\"300\" height=\"200\""));
  EXPECT_THAT(
      svg, HasSubstr("<rect x=\"1.0\" y=\"2.0\" width=\"3.0\" "
                     "height=\"4.3\" fill=\"#ff0000\"><title>three</title>"));
  EXPECT_THAT(svg, HasSubstr("points=\"0.0,1.0 2.0,3.0\""));
  EXPECT_THAT(svg, HasSubstr("stroke=\"#00ff00\" stroke-width=\"2.5\" "
                             "stroke-dasharray=\"4 2\""));
}

// The checker is worth something only if it can say no.
TEST(XmlCheckerTest, FindsWhatIsNotWellFormed) {
  EXPECT_EQ(CheckXml("<a x=\"1\"><b/>t&amp;&#39;</a>\n"), "");
  for (const char* bad :
       {"", "text", "<a>", "<a></b>", "<a><b></a></b>", "<a x=1/>",
        "<a x=\"<\"/>", "<a>&nothing;</a>", "<a>&</a>", "<a/><b/>",
        "<a x=\"1/>", "<a x=\"1\" x=\"2\"/>", "<a>\x01</a>", "<a"}) {
    EXPECT_NE(CheckXml(bad), "") << bad;
  }
}

}  // namespace
}  // namespace tributary

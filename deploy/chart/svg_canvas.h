// Draws shapes and text as SVG (https://www.w3.org/TR/SVG11), a picture that
// every browser shows.
#ifndef TRIBUTARY_DEPLOY_CHART_SVG_CANVAS_H_
#define TRIBUTARY_DEPLOY_CHART_SVG_CANVAS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tributary {

// Text as it may stand in an XML document, between tags or in an attribute:
// markup is escaped, and what XML cannot hold (control characters, bytes that
// are not valid UTF-8) is written as \xNN.
std::string EscapeXml(absl::string_view text);

// All lengths are in pixels; x grows to the right, y down.
struct SvgPoint {
  double x = 0;
  double y = 0;
};

struct SvgBox {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;

  double right() const { return x + width; }
  double bottom() const { return y + height; }
};

struct SvgStroke {
  std::string color = "#333333";
  double width = 1;
  std::string dashes;  // "6 3": 6 drawn, 3 left out; empty: a whole line.
};

struct SvgTextStyle {
  enum class Anchor { kStart, kMiddle, kEnd };
  Anchor anchor = Anchor::kStart;
  double size = 13;
  bool bold = false;
  std::string color = "#222222";
  bool upwards = false;  // Turned to read from bottom to top.
};

// One picture on white ground. Coordinates must be finite. Texts and tooltips
// may hold anything. Not thread-safe.
class SvgCanvas {
 public:
  // `title` is what a screen reader calls the picture.
  SvgCanvas(double width, double height, absl::string_view title);

  void Line(SvgPoint from, SvgPoint to, const SvgStroke& stroke);
  void Polyline(absl::Span<const SvgPoint> points, const SvgStroke& stroke);
  // `tooltip` is shown under the mouse; empty: none.
  void Rectangle(const SvgBox& box, const std::string& fill,
                 absl::string_view tooltip = "");
  void Outline(const SvgBox& box, const SvgStroke& stroke);
  void Circle(SvgPoint center, double radius, const std::string& fill,
              absl::string_view tooltip = "");
  // `at` is on the text's base line.
  void Text(SvgPoint at, absl::string_view text, const SvgTextStyle& style);

  // What is drawn until EndClip shows only inside the box. Not nested.
  void BeginClip(const SvgBox& box);
  void EndClip();

  // About how wide the text will be: which font there is nobody knows.
  static double TextWidth(absl::string_view text, double size);

  // The whole document.
  std::string Finish() const;

 private:
  std::string body_;
  int clips_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_CHART_SVG_CANVAS_H_

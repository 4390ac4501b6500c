// Draws shapes and text as SVG (https://www.w3.org/TR/SVG11), which browsers
// display.
#ifndef TRIBUTARY_DEPLOY_TOOLS_CHART_SVG_CANVAS_H_
#define TRIBUTARY_DEPLOY_TOOLS_CHART_SVG_CANVAS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tributary {

// Escapes text for an XML document, between tags or in an attribute. Escapes
// markup characters, and replaces what XML does not allow (control characters,
// bytes that are not valid UTF-8) by \xNN.
std::string EscapeXml(absl::string_view text);

// A point of a picture. All lengths are in pixels; x increases to the right, y
// downwards.
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
  // Lengths of dashes and gaps in pixels, such as "6 3" for dashes of 6 and
  // gaps of 3. Empty for a solid line.
  std::string dashes;
};

struct SvgTextStyle {
  enum class Anchor { kStart, kMiddle, kEnd };
  Anchor anchor = Anchor::kStart;
  double size = 13;
  bool bold = false;
  std::string color = "#222222";
  bool upwards = false;  // True for text that reads from bottom to top.
};

// A picture on a white background. Coordinates must be finite. Texts and
// tooltips may contain any bytes. Not thread-safe.
class SvgCanvas {
 public:
  // `title` is the name of the picture for screen readers.
  SvgCanvas(double width, double height, absl::string_view title);

  void Line(SvgPoint from, SvgPoint to, const SvgStroke& stroke);
  void Polyline(absl::Span<const SvgPoint> points, const SvgStroke& stroke);
  // Draws a filled rectangle. Browsers show `tooltip`, unless it is empty,
  // while the mouse pointer is over the shape.
  void Rectangle(const SvgBox& box, const std::string& fill,
                 absl::string_view tooltip = "");
  void Outline(const SvgBox& box, const SvgStroke& stroke);
  void Circle(SvgPoint center, double radius, const std::string& fill,
              absl::string_view tooltip = "");
  // Draws `text`. `at` is a point on the baseline of the text: its start,
  // middle or end, as `style.anchor` selects.
  void Text(SvgPoint at, absl::string_view text, const SvgTextStyle& style);

  // Until EndClip, draws only the parts of shapes that are inside `box`. Calls
  // cannot be nested.
  void BeginClip(const SvgBox& box);
  void EndClip();

  // Returns an estimate of the width of the text. The exact width depends on
  // the font of the viewer.
  static double TextWidth(absl::string_view text, double size);

  // Returns the picture as a complete SVG document.
  std::string Finish() const;

 private:
  std::string body_;
  int clips_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_CHART_SVG_CANVAS_H_

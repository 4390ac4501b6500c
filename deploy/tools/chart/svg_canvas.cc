#include "deploy/tools/chart/svg_canvas.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/text/escape.h"

namespace tributary {
namespace {

// Mean character width of a sans-serif font, relative to its size.
constexpr double kCharacterWidth = 0.55;

std::string Tooltip(absl::string_view text) {
  return text.empty() ? std::string()
                      : absl::StrCat("<title>", EscapeXml(text), "</title>");
}

std::string StrokeAttributes(const SvgStroke& stroke) {
  std::string text = absl::StrFormat(" stroke=\"%s\" stroke-width=\"%.4g\"",
                                     EscapeXml(stroke.color), stroke.width);
  if (!stroke.dashes.empty()) {
    absl::StrAppend(&text, " stroke-dasharray=\"", EscapeXml(stroke.dashes),
                    "\"");
  }
  return text;
}

std::string BoxAttributes(const SvgBox& box) {
  return absl::StrFormat(
      " x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"", box.x, box.y,
      box.width, box.height);
}

std::string Points(absl::Span<const SvgPoint> points) {
  std::string text;
  for (const SvgPoint& point : points) {
    absl::StrAppendFormat(&text, "%s%.1f,%.1f", text.empty() ? "" : " ",
                          point.x, point.y);
  }
  return text;
}

}  // namespace

std::string EscapeXml(absl::string_view text) {
  return absl::StrReplaceAll(
      EscapeForTerminal(text),
      {{"&", "&amp;"},
       {"<", "&lt;"},
       {">", "&gt;"},
       {"\"", "&quot;"},
       {"'", "&#39;"},
       // The two code points that UTF-8 can encode and XML does not allow.
       {"\xEF\xBF\xBE", "\\xef\\xbf\\xbe"},
       {"\xEF\xBF\xBF", "\\xef\\xbf\\xbf"}});
}

SvgCanvas::SvgCanvas(double width, double height, absl::string_view title) {
  absl::StrAppendFormat(
      &body_,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
      "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
      "font-family=\"DejaVu Sans, Verdana, Arial, sans-serif\">\n"
      "<title>%s</title>\n"
      "<rect width=\"%.0f\" height=\"%.0f\" fill=\"white\"/>\n",
      width, height, width, height, EscapeXml(title), width, height);
}

void SvgCanvas::Line(SvgPoint from, SvgPoint to, const SvgStroke& stroke) {
  absl::StrAppendFormat(
      &body_, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"%s/>\n",
      from.x, from.y, to.x, to.y, StrokeAttributes(stroke));
}

void SvgCanvas::Polyline(absl::Span<const SvgPoint> points,
                         const SvgStroke& stroke) {
  absl::StrAppendFormat(
      &body_,
      "<polyline points=\"%s\" fill=\"none\" stroke-linejoin=\"round\"%s/>\n",
      Points(points), StrokeAttributes(stroke));
}

void SvgCanvas::Rectangle(const SvgBox& box, const std::string& fill,
                          absl::string_view tooltip) {
  absl::StrAppendFormat(&body_, "<rect%s fill=\"%s\">%s</rect>\n",
                        BoxAttributes(box), EscapeXml(fill), Tooltip(tooltip));
}

void SvgCanvas::Outline(const SvgBox& box, const SvgStroke& stroke) {
  absl::StrAppendFormat(&body_, "<rect%s fill=\"none\"%s/>\n",
                        BoxAttributes(box), StrokeAttributes(stroke));
}

void SvgCanvas::Circle(SvgPoint center, double radius, const std::string& fill,
                       absl::string_view tooltip) {
  absl::StrAppendFormat(
      &body_,
      "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\">%s</circle>\n",
      center.x, center.y, radius, EscapeXml(fill), Tooltip(tooltip));
}

void SvgCanvas::Text(SvgPoint at, absl::string_view text,
                     const SvgTextStyle& style) {
  std::string attributes =
      absl::StrFormat(" x=\"%.1f\" y=\"%.1f\" font-size=\"%.4g\" fill=\"%s\"",
                      at.x, at.y, style.size, EscapeXml(style.color));
  if (style.anchor != SvgTextStyle::Anchor::kStart) {
    absl::StrAppend(
        &attributes, " text-anchor=\"",
        style.anchor == SvgTextStyle::Anchor::kEnd ? "end" : "middle", "\"");
  }
  if (style.bold) absl::StrAppend(&attributes, " font-weight=\"bold\"");
  if (style.upwards) {
    absl::StrAppendFormat(&attributes, " transform=\"rotate(-90 %.1f %.1f)\"",
                          at.x, at.y);
  }
  absl::StrAppend(&body_, "<text", attributes, ">", EscapeXml(text),
                  "</text>\n");
}

void SvgCanvas::BeginClip(const SvgBox& box) {
  ++clips_;
  absl::StrAppendFormat(&body_,
                        "<clipPath id=\"clip%d\"><rect%s/></clipPath>\n"
                        "<g clip-path=\"url(#clip%d)\">\n",
                        clips_, BoxAttributes(box), clips_);
}

void SvgCanvas::EndClip() { absl::StrAppend(&body_, "</g>\n"); }

double SvgCanvas::TextWidth(absl::string_view text, double size) {
  return kCharacterWidth * size * static_cast<double>(text.size());
}

std::string SvgCanvas::Finish() const { return body_ + "</svg>\n"; }

}  // namespace tributary

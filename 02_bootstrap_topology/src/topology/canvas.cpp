#include "topology/canvas.hpp"

#include <array>
#include <cmath>
#include <cstdio>

namespace rungs::topology {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

std::string short_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  std::string number = text.data();
  if (number.ends_with(".0")) number.resize(number.size() - 2);
  return number;
}

void Canvas::rectangle(const Box& box, std::string_view fill, std::string_view stroke) {
  body_ << "<rect x=\"" << box.x << "\" y=\"" << box.y << "\" width=\"" << box.width
        << "\" height=\"" << box.height << "\" rx=\"5\" fill=\"" << fill << "\" stroke=\"" << stroke
        << "\"/>\n";
}

void Canvas::text(Point at, std::string_view text, double size, Anchor anchor,
                  std::string_view colour) {
  constexpr std::array<const char*, 3> kNames{"start", "middle", "end"};
  body_ << "<text x=\"" << at.x << "\" y=\"" << at.y << "\" font-size=\"" << size
        << "\" text-anchor=\"" << kNames[static_cast<std::size_t>(anchor)] << "\" fill=\"" << colour
        << "\">" << escaped(text) << "</text>\n";
}

void Canvas::path(const std::string& commands, std::string_view colour, double width, bool arrow) {
  body_ << "<path d=\"" << commands << "\" fill=\"none\" stroke=\"" << colour
        << "\" stroke-width=\"" << width << "\"";
  if (arrow) body_ << " marker-end=\"url(#arrow" << colour.substr(1) << ")\"";
  body_ << "/>\n";
  if (arrow) arrow_colours_.insert(std::string(colour));
}

void Canvas::line(Point from, Point to, std::string_view colour, double width) {
  body_ << "<line x1=\"" << from.x << "\" y1=\"" << from.y << "\" x2=\"" << to.x << "\" y2=\""
        << to.y << "\" stroke=\"" << colour << "\" stroke-width=\"" << width << "\"/>\n";
}

void Canvas::dot(Point centre, double radius, std::string_view colour) {
  body_ << "<circle cx=\"" << centre.x << "\" cy=\"" << centre.y << "\" r=\"" << radius
        << "\" fill=\"" << colour << "\"/>\n";
}

std::string Canvas::document(double width, double height, std::string_view title) const {
  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << " " << height
      << "\" width=\"" << width << "\" height=\"" << height
      << "\" font-family=\"DejaVu Sans, Verdana, Helvetica, sans-serif\">\n<title>"
      << escaped(title) << "</title>\n<defs>\n";
  for (const std::string& colour : arrow_colours_) {
    out << "<marker id=\"arrow" << colour.substr(1)
        << "\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"10\" markerHeight=\"10\" "
           "markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\" fill=\""
        << colour << "\"/></marker>\n";
  }
  out << "</defs>\n<rect width=\"" << width << "\" height=\"" << height << "\" fill=\"white\"/>\n"
      << body_.str() << "</svg>\n";
  return out.str();
}

}  // namespace rungs::topology

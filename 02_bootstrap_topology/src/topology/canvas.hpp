#pragma once
/// @file canvas.hpp
/// The few SVG elements the pictures are made of.

#include <rungs/config.hpp>

#include <set>
#include <sstream>
#include <string>
#include <string_view>

namespace rungs::topology {

struct Point {
  double x = 0;
  double y = 0;
};

struct Box {
  double x = 0;  ///< left
  double y = 0;  ///< top
  double width = 0;
  double height = 0;
  [[nodiscard]] double middle() const { return x + width / 2; }
  [[nodiscard]] double bottom() const { return y + height; }
};

enum class Anchor { kStart, kMiddle, kEnd };

class Canvas {
 public:
  void rectangle(const Box& box, std::string_view fill, std::string_view stroke);
  /// The baseline starts, is centred or ends at the point.
  void text(Point at, std::string_view text, double size, Anchor anchor,
            std::string_view colour = "#222");
  /// A path in SVG's own notation. @param arrow whether it ends in an arrowhead of its colour
  void path(const std::string& commands, std::string_view colour, double width, bool arrow = false);
  void line(Point from, Point to, std::string_view colour, double width);
  void dot(Point centre, double radius, std::string_view colour);
  /// The document.
  [[nodiscard]] std::string document(double width, double height, std::string_view title) const;

 private:
  std::ostringstream body_;
  std::set<std::string> arrow_colours_;
};

/// Text for XML: & < > " escaped, control characters replaced.
std::string escaped(std::string_view text);
/// Without trailing zeros: "48", "370.8".
std::string short_number(double value);

}  // namespace rungs::topology

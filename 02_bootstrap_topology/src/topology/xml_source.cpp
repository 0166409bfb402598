#include "topology/xml_source.hpp"

#include <rungs/core/error.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace rungs::topology {
namespace {

constexpr std::size_t kMostBytes = std::size_t{4} << 20;

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

}  // namespace

Source::Source(std::string_view text, const std::string& name) : text_(text), name_(name) {
  if (text.size() > kMostBytes) {
    fail(0, concat("the description has ", text.size(),
                   " bytes; one of a machine has a few "
                   "thousand, and at most ",
                   kMostBytes, " are read"));
  }
  // pugixml would take a NUL for the end and not look at the rest.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    fail(nul, "a NUL byte: this is no XML text");
  }
  const pugi::xml_parse_result result = document_.load_buffer(
      text.data(), text.size(), pugi::parse_default | pugi::parse_fragment, pugi::encoding_utf8);
  if (!result) {
    fail(static_cast<std::size_t>(std::max<std::ptrdiff_t>(result.offset, 0)),
         concat("broken XML: ", result.description()));
  }
}

pugi::xml_node Source::root(std::string_view tag) const {
  pugi::xml_node found;
  for (const pugi::xml_node node : document_.children()) {
    if (node.type() == pugi::node_pcdata || node.type() == pugi::node_cdata) {
      fail(offset(node), concat("text outside of <", tag, ">"));
    }
    if (node.type() != pugi::node_element) continue;
    if (node.name() != tag) {
      fail(offset(node),
           concat("unknown element <", node.name(), ">; a description begins with <", tag, ">"));
    }
    if (found) fail(offset(node), concat("a second <", tag, ">; a description has one"));
    found = node;
  }
  if (!found) fail(text_.size(), concat("no <", tag, "> element"));
  return found;
}

std::string Source::position(std::size_t offset) const {
  offset = std::min(offset, text_.size());
  const std::string_view before = text_.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t start = before.rfind('\n');
  const std::size_t column = start == std::string_view::npos ? offset + 1 : offset - start;
  return concat(line, ":", column);
}

std::size_t Source::offset(pugi::xml_node node) const {
  const std::ptrdiff_t start = node.offset_debug();
  std::size_t at = start < 0 ? 0 : static_cast<std::size_t>(start);
  // pugixml points at an element's name, people look for its bracket; text begins behind its
  // blanks.
  if (node.type() == pugi::node_element && at > 0) return at - 1;
  if (node.type() == pugi::node_pcdata) {
    while (at + 1 < text_.size() && is_space(text_[at])) ++at;
  }
  return at;
}

void Source::fail(std::size_t offset, const std::string& reason) const {
  RUNGS_THROW(kInvalidArgument, name_, ":", position(offset), ": ", reason);
}

std::string Element::text(const char* attribute) const {
  if (!has(attribute)) fail(concat("<", tag(), "> has no attribute '", attribute, "'"));
  return node_.attribute(attribute).value();
}

std::string Element::text_or(const char* attribute, std::string otherwise) const {
  return has(attribute) ? text(attribute) : std::move(otherwise);
}

int Element::integer(const char* attribute, int low, int high) const {
  const std::string given = text(attribute);
  std::string_view digits = given;
  const bool hexadecimal = digits.starts_with("0x");
  if (hexadecimal) digits.remove_prefix(2);
  int value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, failed] = std::from_chars(digits.data(), end, value, hexadecimal ? 16 : 10);
  if (failed != std::errc() || stop != end) {
    fail_at(attribute, concat(attribute, "='", given, "' is not a number"));
  }
  if (value < low || value > high) {
    fail_at(attribute, high == std::numeric_limits<int>::max()
                           ? concat(attribute, "=", value, " is less than ", low)
                           : concat(attribute, "=", value, " is not in ", low, "..", high));
  }
  return value;
}

int Element::integer_or(const char* attribute, int otherwise, int low, int high) const {
  return has(attribute) ? integer(attribute, low, high) : otherwise;
}

void Element::fail_at(const char* attribute, const std::string& reason) const {
  source_->fail(source_->attribute_offset(node_, attribute), reason);
}

// pugixml keeps no positions of attributes. The text is known to be well-formed here.
std::size_t Source::attribute_offset(pugi::xml_node node, std::string_view attribute) const {
  std::size_t at = offset(node) + 1 + std::string_view(node.name()).size();
  while (at < text_.size()) {
    while (at < text_.size() && is_space(text_[at])) ++at;
    const std::size_t name_end = text_.find_first_of("= \t\r\n/>", at);
    if (name_end == std::string_view::npos || name_end == at) break;
    if (text_.substr(at, name_end - at) == attribute) return at;
    const std::size_t open = text_.find_first_of("\"'", name_end);
    if (open == std::string_view::npos) break;
    const std::size_t close = text_.find(text_[open], open + 1);
    if (close == std::string_view::npos) break;
    at = close + 1;
  }
  return offset(node);
}

}  // namespace rungs::topology

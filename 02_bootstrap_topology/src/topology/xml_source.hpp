#pragma once
/// @file xml_source.hpp
/// XML with positions: every complaint about a description says file, line and column.

#include <rungs/config.hpp>

#include <cstddef>
#include <limits>
#include <pugixml.hpp>
#include <string>
#include <string_view>

namespace rungs::topology {

/// A parsed text that remembers where everything stood.
class Source {
 public:
  /// @throws Error kInvalidArgument for what is no XML
  Source(std::string_view text, const std::string& name);
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// The one element at the top. @throws Error if it is not called `tag`, or not alone
  [[nodiscard]] pugi::xml_node root(std::string_view tag) const;
  /// "12:7" for an offset into the text.
  [[nodiscard]] std::string position(std::size_t offset) const;
  [[nodiscard]] std::size_t offset(pugi::xml_node node) const;
  [[nodiscard]] std::size_t attribute_offset(pugi::xml_node node, std::string_view attribute) const;
  [[noreturn]] void fail(std::size_t offset, const std::string& reason) const;

 private:
  std::string_view text_;
  std::string name_;
  pugi::xml_document document_;
};

/// An element and the ways to read it.
class Element {
 public:
  Element(const Source& source, pugi::xml_node node) : source_(&source), node_(node) {}

  [[nodiscard]] std::string_view tag() const { return node_.name(); }
  [[nodiscard]] pugi::xml_node node() const { return node_; }
  [[nodiscard]] std::size_t offset() const { return source_->offset(node_); }
  [[nodiscard]] bool has(const char* attribute) const {
    return !node_.attribute(attribute).empty();
  }
  /// @throws Error "<pci> has no attribute 'busid'"
  [[nodiscard]] std::string text(const char* attribute) const;
  [[nodiscard]] std::string text_or(const char* attribute, std::string otherwise) const;
  /// Decimal, or hexadecimal after 0x, in [low, high]. @throws Error naming attribute and value
  [[nodiscard]] int integer(const char* attribute, int low,
                            int high = std::numeric_limits<int>::max()) const;
  [[nodiscard]] int integer_or(const char* attribute, int otherwise, int low,
                               int high = std::numeric_limits<int>::max()) const;

  [[noreturn]] void fail(const std::string& reason) const { source_->fail(offset(), reason); }
  /// A complaint that points at the attribute.
  [[noreturn]] void fail_at(const char* attribute, const std::string& reason) const;

 private:
  const Source* source_;
  pugi::xml_node node_;
};

}  // namespace rungs::topology

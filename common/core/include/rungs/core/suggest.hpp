#pragma once
/// @file suggest.hpp
/// What a mistyped word was probably meant to be.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rungs {

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other
/// (optimal string alignment), ignoring ASCII case.
std::size_t edit_distance(std::string_view from, std::string_view to);

/// The candidate nearest to `word`, or nothing when none is near: at most a third of its letters
/// wrong (at least one), or `word` is the beginning of exactly one candidate.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

/// "; did you mean 'train'?" for an error text, or "" when nothing is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace rungs

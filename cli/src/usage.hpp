#pragma once
/// @file usage.hpp
/// The exit status a complaint deserves: 2 for words that name nothing, 1 for everything else.

#include <stdexcept>

namespace rungs::cli {

/// The command line cannot be right, whatever the machine: an unknown name or a value that no run
/// can have. The program prints the text and exits with 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace rungs::cli

#pragma once
/// @file book.hpp
/// Where the text lies that the tour trains on.

#include <string>

namespace rungs::cli {

/// The path of pride_and_prejudice.txt: in the folder RUNGS_DATA if that is set, otherwise in
/// share/rungs beside the folder of this program. Build tree and install tree are alike in this.
/// @throws Error kSystem naming the path looked at and the way out
std::string book_path();

}  // namespace rungs::cli

#include "book.hpp"

#include <rungs/core/env.hpp>
#include <rungs/core/error.hpp>

#include <filesystem>
#include <system_error>

namespace rungs::cli {

std::string book_path() {
  constexpr const char* kName = "pride_and_prejudice.txt";
  std::error_code failed;
  std::filesystem::path folder;
  if (const auto chosen = env::text("RUNGS_DATA")) {
    folder = *chosen;
  } else {
    const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
    if (failed) {
      RUNGS_THROW(kSystem,
                  "cannot tell where this program lies (/proc/self/exe: ", failed.message(),
                  "). Set RUNGS_DATA to the folder that holds ", kName);
    }
    folder = program.parent_path().parent_path() / "share" / "rungs";
  }
  const auto path = folder / kName;
  if (!std::filesystem::is_regular_file(path, failed)) {
    RUNGS_THROW(kSystem, "the book is not at ", path.string(),
                ". Set RUNGS_DATA to the folder that holds ", kName, " (data/ in the repository)");
  }
  return path.string();
}

}  // namespace rungs::cli

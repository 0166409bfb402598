#include "report.hpp"

#include "screen.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <rungs/core/error.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace rungs::cli {

Report::Report(std::string json_path) : json_path_(std::move(json_path)) {
  if (json_path_.empty()) return;
  std::error_code failed;
  const std::filesystem::path path(json_path_);
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  if (std::filesystem::is_directory(path, failed)) {
    RUNGS_THROW(kSystem, "--json names a folder: '", json_path_, "'. Name a file in it");
  }
  if (access(folder.c_str(), W_OK) != 0) {
    RUNGS_THROW(kSystem, "--json cannot write '", json_path_, "': folder '", folder.string(),
                "': ", std::strerror(errno), ". Make the folder first, or name another file");
  }
}

void Report::check(bool ok, const std::string& what) {
  if (ok) {
    passed();
  } else {
    failed(what);
  }
}

void Report::write_rows() const {
  if (!json_path_.empty()) ladder::write_rows(json_path_, rows_);
}

int Report::summarize() const {
  heading("Result");
  for (const std::string& failure : failures_) paragraph(bad("FAILED ") + failure);
  for (const std::string& open : undecided_) paragraph(warn("not decided ") + open);
  if (!stopped_.empty()) paragraph(warn("stopped ") + stopped_);
  std::string line = fmt::format("{} checks passed, {} failed", passed_, failures_.size());
  if (!undecided_.empty()) line += fmt::format(", {} not decided", undecided_.size());
  if (!stopped_.empty()) line += ", then stopped";
  if (!json_path_.empty()) line += fmt::format("; {} rows in {}", rows_.size(), json_path_);
  write(fmt::format("  {}\n",
                    failures_.empty() ? (stopped_.empty() ? good(line) : line) : bad(line)));
  return failures_.empty() ? 0 : 1;
}

}  // namespace rungs::cli

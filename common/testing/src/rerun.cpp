#include <rungs/testing/rerun.hpp>

#include <rungs/core/error.hpp>

#include <array>
#include <cstdio>
#include <filesystem>

namespace rungs::testing {

Rerun rerun_self(const std::string& environment, const std::string& filter) {
  Rerun run;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  run.command = "env " + environment + " '" + self + "' --gtest_filter='" + filter + "' 2>&1";
  FILE* const child = popen(run.command.c_str(), "r");
  if (child == nullptr) RUNGS_THROW(kSystem, "cannot start: ", run.command);
  std::array<char, 4096> part{};
  for (std::size_t size = 0; (size = fread(part.data(), 1, part.size(), child)) > 0;) {
    run.output.append(part.data(), size);
  }
  run.status = pclose(child);
  return run;
}

}  // namespace rungs::testing

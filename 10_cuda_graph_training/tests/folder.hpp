#pragma once
// A folder of one test, gone with it.

#include <rungs/core/error.hpp>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace rungs::training {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "rungs-training-XXXXXX").string();
    RUNGS_ASSERT(mkdtemp(name.data()) != nullptr, "no folder ", name);
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace rungs::training

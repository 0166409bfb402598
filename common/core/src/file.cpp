#include <rungs/core/file.hpp>

#include <rungs/core/descriptor.hpp>
#include <rungs/core/error.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace rungs::file {
namespace {

// Thread-safe where strerror() is not.
std::string reason(int error) { return std::generic_category().message(error); }

// The file that becomes `path`; removed unless it did.
class Temporary {
 public:
  explicit Temporary(std::string path) : path_(std::move(path)) {}
  ~Temporary() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  void keep() { path_.clear(); }

 private:
  std::string path_;
};

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// Beside the target, since rename() does not cross file systems; the name tells processes and
// threads apart.
std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  return concat(path, ".tmp-", ::getpid(), '-', counter.fetch_add(1));
}

void write_all(int fd, std::span<const std::byte> content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      RUNGS_THROW(kSystem, "cannot write ", path, ": ", reason(errno),
                  "; what was there is unchanged");
    }
    content = content.subspan(static_cast<std::size_t>(written));
  }
}

// Without it the rename itself could be lost. Some file systems cannot do it: then there is nothing
// to add.
void sync_folder(const std::string& folder) {
  const Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return;
  if (::fsync(fd.get()) != 0 && errno != EINVAL && errno != EROFS) {
    RUNGS_THROW(kSystem, "cannot flush the folder ", folder, ": ", reason(errno));
  }
}

template <class Container>
Container read_all(const std::string& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) RUNGS_THROW(kSystem, "cannot open ", path, ": ", reason(errno));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0)
    RUNGS_THROW(kSystem, "cannot read ", path, ": ", reason(errno));
  if (S_ISDIR(info.st_mode)) RUNGS_THROW(kSystem, "cannot read ", path, ": it is a folder");
  // A device such as /dev/zero has no end.
  if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode)) {
    RUNGS_THROW(kSystem, "cannot read ", path, ": it is neither a file nor a pipe");
  }
  Container content;
  std::size_t filled = 0;
  constexpr std::size_t kChunk = 1 << 16;
  // One byte more than the file holds lets the read that fills it also meet its end.
  content.resize(S_ISREG(info.st_mode) ? static_cast<std::size_t>(info.st_size) + 1 : kChunk);
  while (true) {
    if (filled == content.size()) content.resize(2 * content.size());
    const ssize_t got = ::read(fd.get(), content.data() + filled, content.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) RUNGS_THROW(kSystem, "cannot read ", path, ": ", reason(errno));
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  content.resize(filled);
  return content;
}

}  // namespace

std::vector<std::uint8_t> read_bytes(const std::string& path) {
  return read_all<std::vector<std::uint8_t>>(path);
}

std::string read_text(const std::string& path) { return read_all<std::string>(path); }

void write_atomic(const std::string& path, std::span<const std::byte> content) {
  Temporary temporary(temporary_name(path));
  Descriptor fd(::open(temporary.path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (fd.get() < 0) {
    const int error = errno;
    temporary.keep();  // it is not ours
    RUNGS_THROW(kSystem, "cannot write ", path, ": ", reason(error));
  }
  write_all(fd.get(), content, path);
  if (::fsync(fd.get()) != 0 || fd.close() != 0) {
    RUNGS_THROW(kSystem, "cannot write ", path, ": ", reason(errno),
                "; what was there is unchanged");
  }
  if (::rename(temporary.path().c_str(), path.c_str()) != 0) {
    RUNGS_THROW(kSystem, "cannot write ", path, ": ", reason(errno));
  }
  temporary.keep();
  sync_folder(folder_of(path));
}

void write_atomic(const std::string& path, std::string_view content) {
  write_atomic(path, std::as_bytes(std::span(content)));
}

void make_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) RUNGS_THROW(kSystem, "cannot make the folder ", path, ": ", error.message());
  // create_directories() is silent when a plain file has the name.
  if (!std::filesystem::is_directory(path, error)) {
    RUNGS_THROW(kSystem, "cannot make the folder ", path, ": a file has that name");
  }
}

}  // namespace rungs::file

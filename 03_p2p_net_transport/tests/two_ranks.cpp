#include "two_ranks.hpp"

#include <unistd.h>

#include <optional>

namespace rungs::transport {
namespace {

// Made before fork(): carries the unique id from rank 0 to the others.
class IdPipe {
 public:
  IdPipe() { expect(pipe(ends_) == 0, "a pipe"); }
  ~IdPipe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  IdPipe(const IdPipe&) = delete;
  IdPipe& operator=(const IdPipe&) = delete;
  void give(const bootstrap::UniqueId& id, int times) const {
    for (int i = 0; i < times; ++i) {
      const ssize_t count = write(ends_[1], id.bytes.data(), id.bytes.size());
      expect(count == static_cast<ssize_t>(id.bytes.size()), "the id is written");
    }
  }
  [[nodiscard]] bootstrap::UniqueId take() const {
    bootstrap::UniqueId id;
    const ssize_t count = read(ends_[0], id.bytes.data(), id.bytes.size());
    expect(count == static_cast<ssize_t>(id.bytes.size()), "an id is read");
    return id;
  }

 private:
  int ends_[2] = {-1, -1};
};

}  // namespace

std::vector<testing::RankOutcome> run_ranks(Ranks as, int ranks,
                                            const std::function<void(Rank&)>& body) {
  const auto run = [&](bootstrap::Group& group) {
    const int rank = group.rank();
    const gpu::Device device = gpu::Device::open(rank % gpu::Device::count());
    device.make_current();
    Context context(group, &device);
    Rank given{group, context, device, rank, 1 - rank};
    body(given);
  };
  bootstrap::RootOptions options;
  options.ranks = ranks;
  options.interface_or_address = "127.0.0.1";
  if (as == Ranks::kProcesses) {
    // Rank 0 tells the others where it listens: with a fixed port, two tests at once would meet.
    IdPipe ids;
    return testing::run_processes(ranks, [&](int rank) {
      std::optional<bootstrap::Root> root;
      if (rank == 0) {
        root.emplace(options);
        ids.give(root->id(), ranks - 1);
      }
      bootstrap::Group group(rank == 0 ? root->id() : ids.take(), rank, ranks);
      run(group);
    });
  }
  const bootstrap::Root root(options);
  return testing::run_threads(ranks, [&](int rank) {
    bootstrap::Group group(root.id(), rank, ranks);
    run(group);
  });
}

std::string run_two(Ranks as, const std::function<void(Rank&)>& body) {
  return testing::failures(run_ranks(as, 2, body));
}

std::vector<std::byte> message(std::uint64_t seed, std::size_t size_bytes) {
  std::vector<std::byte> bytes(size_bytes);
  for (std::size_t i = 0; i < size_bytes; ++i) bytes[i] = expected_byte(seed, i);
  return bytes;
}

std::vector<std::byte> poisoned(std::uint64_t seed, std::size_t size_bytes) {
  std::vector<std::byte> bytes = message(seed, size_bytes);
  for (std::byte& byte : bytes) byte = ~byte;
  return bytes;
}

void expect_message(std::uint64_t seed, std::span<const std::byte> got) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == expected_byte(seed, i)) continue;
    RUNGS_THROW(kInternal, "message ", seed, " of ", got.size(), " bytes: byte ", i, " is ",
                static_cast<int>(got[i]), ", not ", static_cast<int>(expected_byte(seed, i)));
  }
}

void expect(bool condition, const std::string& what) {
  if (!condition) RUNGS_THROW(kInternal, "expected: ", what);
}

std::string expect_error(ErrorCode code, const std::vector<std::string>& parts,
                         const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    const std::string text = error.message();
    expect(error.code() == code, concat(to_string(code), " instead of ", error.what()));
    for (const std::string& part : parts)
      expect(text.find(part) != std::string::npos, concat("'", part, "' in: ", text));
    return text;
  }
  RUNGS_THROW(kInternal, "expected ", to_string(code), ", and nothing was thrown");
}

}  // namespace rungs::transport

#include <rungs/core/env.hpp>
#include <rungs/core/error.hpp>

#include <charconv>
#include <limits>
#include <string_view>
#include <vector>

namespace rungs {
namespace {

constexpr int kMostRanks = 1 << 20;
constexpr int kTorchPort = 29500;

// How a family of launchers names what it says. The first name of a pair decides whether it
// launched us.
struct Names {
  const char* launcher;
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_size;
};
constexpr Names kTorchrun{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names kOpenMpi{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                         "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names kMpich{"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr Names kSrun{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr};

bool has(const char* name) { return name != nullptr && env::text(name).has_value(); }

// An sbatch script has SLURM_PROCID too, but is no step of its own: only srun sets the step's task
// count.
const Names* find_launcher() {
  if (has(kTorchrun.rank) || has(kTorchrun.world_size)) return &kTorchrun;
  for (const Names* names : {&kOpenMpi, &kMpich, &kSrun}) {
    if (has(names->rank) && has(names->world_size)) return names;
  }
  return nullptr;
}

int needed(const char* name, const char* because, int min, int max) {
  RUNGS_REQUIRE(has(name), "environment variable ", name, " is not set although ", because,
                " is: set both, or start the program with a launcher");
  return static_cast<int>(env::integer(name, min, min, max));
}

// "4(x2),3" with node 2 → 3: how srun writes the tasks of every node.
int tasks_of_node(std::string_view list, std::int64_t node) {
  const std::string_view whole = list;
  const auto broken = [&] {
    RUNGS_THROW(kInvalidArgument, "environment variable SLURM_STEP_TASKS_PER_NODE is '", whole,
                "': it does not say how many tasks node ", node, " has");
  };
  while (!list.empty()) {
    const std::string_view entry = list.substr(0, list.find(','));
    list.remove_prefix(entry.size() == list.size() ? entry.size() : entry.size() + 1);
    int tasks = 0;
    const char* end = entry.data() + entry.size();
    const std::from_chars_result number = std::from_chars(entry.data(), end, tasks);
    if (number.ec != std::errc() || tasks < 1) broken();
    std::int64_t repeat = 1;
    if (number.ptr != end) {
      const std::string_view rest(number.ptr, static_cast<std::size_t>(end - number.ptr));
      if (rest.size() < 4 || !rest.starts_with("(x") || !rest.ends_with(')')) broken();
      const std::from_chars_result times =
          std::from_chars(rest.data() + 2, rest.data() + rest.size() - 1, repeat);
      if (times.ec != std::errc() || times.ptr != rest.data() + rest.size() - 1 || repeat < 1)
        broken();
    }
    if (node < repeat) return tasks;
    node -= repeat;
  }
  broken();
  return 0;
}

int local_size_of(const Names& names, int local_rank, int world_size) {
  if (has(names.local_size)) {
    return static_cast<int>(env::integer(names.local_size, 1, 1, world_size));
  }
  const std::optional<std::string> per_node = env::text("SLURM_STEP_TASKS_PER_NODE");
  if (&names == &kSrun && per_node) {
    return tasks_of_node(*per_node, env::integer("SLURM_NODEID", 0, 0, kMostRanks));
  }
  RUNGS_REQUIRE(local_rank < world_size, "local rank ", local_rank, " of ", world_size, " ranks");
  return world_size;
}

}  // namespace

RankEnvironment RankEnvironment::read() {
  RankEnvironment result;
  const Names* names = find_launcher();
  if (names != nullptr) {
    result.launcher = names->launcher;
    result.world_size = needed(names->world_size, names->rank, 1, kMostRanks);
    result.rank = needed(names->rank, names->world_size, 0, result.world_size - 1);
    result.local_rank =
        has(names->local_rank)
            ? static_cast<int>(env::integer(names->local_rank, 0, 0, result.world_size - 1))
            : result.rank;
    result.local_size = local_size_of(*names, result.local_rank, result.world_size);
    RUNGS_REQUIRE(result.local_rank < result.local_size, "environment variable ", names->local_rank,
                  " is '", result.local_rank, "': this host has ", result.local_size,
                  " ranks, counted from 0");
  }
  const std::optional<std::string> address = env::text("MASTER_ADDR");
  RUNGS_REQUIRE(address || result.local_size == result.world_size,
                "environment variable MASTER_ADDR is not set: ranks on several hosts (",
                result.local_size, " of ", result.world_size,
                " here) need the address of rank 0's host");
  result.master_address = address.value_or("127.0.0.1");
  result.master_port = static_cast<int>(
      env::integer("MASTER_PORT", kTorchPort, 1, std::numeric_limits<std::uint16_t>::max()));
  return result;
}

}  // namespace rungs

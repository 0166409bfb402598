#include "report.hpp"

#include "bulk.hpp"
#include "worker.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

namespace rungs::emulator {
namespace {

__attribute__((format(printf, 1, 0))) std::string print(const char* format, va_list arguments) {
  char text[700];
  std::vsnprintf(text, sizeof(text), format, arguments);
  return text;
}

__attribute__((format(printf, 1, 2))) std::string print(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = print(format, arguments);
  va_end(arguments);
  return text;
}

std::string place(Location where) {
  const char* slash = std::strrchr(where.file, '/');
  return print("%s:%d", slash != nullptr ? slash + 1 : where.file, where.line);
}

std::string name_of(const Block& block) {
  const Index3& i = block.block_index;
  return print("block (%u,%u,%u)", i.x, i.y, i.z);
}

std::string name_of(const Thread& thread) {
  return print("%s warp %u lane %u (thread %u)", name_of(thread.home()).c_str(),
               thread.index() / 32, thread.index() % 32, thread.index());
}

std::string compose(const Launch& launch, const std::string& what, const std::string& where,
                    const char* hint) {
  std::string text = print("kernel \"%s\": ", launch.name()) + what;
  if (!where.empty()) text += "\n  " + where;
  if (hint != nullptr && *hint != '\0') text += std::string("\n  look for: ") + hint;
  return text;
}

using Number = unsigned long long;

std::string describe_mbarrier(Block& block, const Thread& thread, const char* how) {
  std::string text =
      print("%s mbarrier at shared-memory offset %llu, awaiting the end of a phase of parity %u",
            how, Number{thread.value}, thread.wait_detail_);
  if (const MBarrier* barrier = block.mbarriers.find(static_cast<std::uint32_t>(thread.value))) {
    text += print(
        " {current phase %u (parity %u), pending arrivals %u of %u, bytes still expected %lld, "
        "initialised "
        "at %s}",
        barrier->phase, barrier->phase & 1, barrier->pending, barrier->count,
        static_cast<long long>(barrier->tx_bytes), place(barrier->initialised_at).c_str());
  }
  return text;
}

std::string describe_poll(const Thread& thread) {
  std::string text = print("polling address 0x%llx", Number{thread.value});
  for (const Thread::Poll& poll : thread.recent) {
    if (reinterpret_cast<std::uint64_t>(poll.address) != thread.value) continue;
    text += print(", which holds %llu (0x%llx)", Number{poll.value}, Number{poll.value});
  }
  return text;
}

std::string describe(const Thread& thread) {
  Block& block = thread.home();
  const Number value = thread.value;
  switch (static_cast<WaitKind>(thread.wait_kind_)) {
    case WaitKind::kBarrier: {
      const NamedBarrier& barrier = block.barriers[value];
      return print("barrier %llu for %u threads {%u arrived}", value, barrier.expected,
                   barrier.arrived);
    }
    case WaitKind::kCollective:
      return print("the other lanes of mask %08llx in a warp collective", value);
    case WaitKind::kMbarrier:
      return describe_mbarrier(block, thread, "an");
    case WaitKind::kTryWait:
      return describe_mbarrier(block, thread, "polling an");
    case WaitKind::kWgmma:
      return print("wgmma.wait_group: %llu multiplications must be done, %llu are", value,
                   Number{block.warp_groups[thread.index() / 128].done});
    case WaitKind::kCluster:
      return print("the cluster barrier {%u threads of the cluster have not arrived}",
                   block.cluster->missing);
    case WaitKind::kPoll:
      return describe_poll(thread);
    case WaitKind::kYield:
      return "nanosleep in a loop";
    case WaitKind::kRegisters:
      return print("setmaxnreg.inc to %llu registers a thread {%u registers are free in the block}",
                   value, block.cluster->members[block.rank].free_registers);
    case WaitKind::kPrerequisites:
      return "griddepcontrol.wait: the end of the launch before this one";
    case WaitKind::kBulk:
      return print("cp.async.bulk.wait_group%s: its first %llu copies out of shared memory",
                   thread.wait_detail_ != 0 ? ".read" : "", value);
    case WaitKind::kGathering:
      return describe_gathering(thread);
    case WaitKind::kAsyncCopy:
      return print("cp.async.wait: its first %llu copies", value);
    case WaitKind::kNothing:
      break;
  }
  return "nothing";
}

}  // namespace

namespace {

// Apart from their callers, which may never return: whatever these allocate is freed before that.
__attribute__((format(printf, 4, 0))) void fail_thread(Thread& thread, Location where,
                                                       const char* hint, const char* format,
                                                       va_list arguments) {
  std::string at = name_of(thread);
  if (*where.file != '\0') at = "at " + place(where) + ", " + at;
  Launch& launch = *thread.home().launch;
  launch.fail(compose(launch, print(format, arguments), at, hint));
}

__attribute__((format(printf, 4, 0))) void fail_block(Block& block, Location where,
                                                      const char* hint, const char* format,
                                                      va_list arguments) {
  std::string at = name_of(block);
  if (*where.file != '\0') at = "issued at " + place(where) + ", " + at;
  block.launch->fail(compose(*block.launch, print(format, arguments), at, hint));
}

}  // namespace

void fail(Location where, const char* hint, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fail_thread(this_thread(), where, hint, format, arguments);
  va_end(arguments);
  this_worker->abandon(this_thread());
}

void fail_async(Block& block, Location where, const char* hint, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (this_worker->running != nullptr) {
    fail_thread(*this_worker->running, where, hint, format, arguments);
  } else {
    fail_block(block, where, hint, format, arguments);
  }
  va_end(arguments);
  if (this_worker->running != nullptr) this_worker->abandon(*this_worker->running);
}

void report_deadlock(Cluster& cluster, const char* title, const char* hint) {
  struct Waiters {
    unsigned count = 0;
    const Thread* first = nullptr;
  };
  std::map<std::string, Waiters> reasons;
  std::string blocks;
  for (const auto& block : cluster.blocks) {
    blocks += print("\n  %s: %u of %u threads have ended", name_of(*block).c_str(),
                    block->ended.count(), block->thread_count);
    for (unsigned i = 0; i < block->thread_count; i++) {
      const Thread& thread = block->threads[i];
      if (thread.stack == nullptr) continue;  // ended
      Waiters& waiters =
          reasons[describe(thread) + "  [" + place({thread.file, thread.line}) + "]"];
      if (waiters.count++ == 0) waiters.first = &thread;
    }
  }
  std::string text = print("kernel \"%s\": %s", cluster.launch->name(), title) + blocks;
  for (const auto& [reason, waiters] : reasons) {
    text += print("\n  %u thread%s wait%s for: ", waiters.count, waiters.count == 1 ? "" : "s",
                  waiters.count == 1 ? "s" : "") +
            reason + "\n      first: " + name_of(*waiters.first);
  }
  text += std::string("\n  look for: ") + hint;
  cluster.launch->fail(text);
}

void check_exit(Cluster& cluster) {
  for (const auto& block : cluster.blocks) {
    for (std::uint32_t i = 0; i < block->mbarriers.size(); i++) {
      const MBarrier& barrier = block->mbarriers[i];
      if (barrier.tx_bytes == 0) continue;
      fail_async(*block, barrier.initialised_at,
                 "the bytes passed to mbarrier_arrive_expect_tx() and the tile's size",
                 "a block ends while its mbarrier at shared-memory offset %u holds a transaction "
                 "count of %lld: "
                 "expected and copied bytes disagree",
                 barrier.offset, static_cast<long long>(barrier.tx_bytes));
    }
    check_bulk_exit(*block);
    for (const WarpGroup& group : block->warp_groups) {
      for (const auto& tile : group.tiles) {
        if (tile->users == 0) continue;
        fail_async(
            *block, tile->where,
            "wgmma_commit() and wgmma_wait<0>() before the accumulators are read",
            "a block ends with wgmma accumulators in flight: %d threads never waited for them",
            tile->users);
      }
    }
  }
}

}  // namespace rungs::emulator

// Register allocation (setmaxnreg). The emulator has no register file; it keeps the accounts.

#include "cluster.hpp"
#include "report.hpp"
#include "sanitizer.hpp"
#include "trace_hooks.hpp"
#include "worker.hpp"

#include <rungs/emulator/model_memory.hpp>

#include <algorithm>

namespace rungs::emulator {
namespace {

constexpr unsigned kRegistersPerSm = 65536;
constexpr unsigned kMostPerThread = 256;

void start_accounts(const Block& block, BlockInCluster& member) {
  const auto warps = static_cast<unsigned>(block.warps.size());
  const unsigned each = std::min(kMostPerThread, kRegistersPerSm / (warps * 32) / 8 * 8);
  member.registers.assign(warps, {each, false});
  member.exchanges.assign(warps / 4, {});
  member.free_registers = 0;
}

// The four warps of a warpgroup execute the same setmaxnreg before one of them executes another.
void check_warp_group(Thread& self, BlockInCluster& member, Location where) {
  AlignedUse& exchange = member.exchanges[self.index() / 128];
  if (exchange.lanes == 0) {
    exchange.where = where;
  } else if (exchange.where.line != where.line) {
    fail(where, "a branch that sends the warps of one warpgroup different ways",
         "setmaxnreg at line %d, while other warps of warpgroup %u have executed one at line %d",
         where.line, self.index() / 128, exchange.where.line);
  }
  if (++exchange.lanes == 4) exchange.lanes = 0;
}

void change(Thread& self, unsigned count, bool increase, Location where) {
  Block& block = self.home();
  BlockInCluster& member = block.cluster->members[block.rank];
  if (member.registers.empty()) start_accounts(block, member);
  check_warp_group(self, member, where);
  trace::instruction(increase ? "setmaxnreg.inc" : "setmaxnreg.dec", where, count);
  BlockInCluster::WarpRegisters& warp = member.registers[self.index() / 32];
  if (increase && warp.chosen && count < warp.count) {
    fail(where, "setmaxnreg_dec() gives registers back",
         "setmaxnreg.inc to %u registers a thread, fewer than the warp's %u", count, warp.count);
  }
  if (!increase && count > warp.count) {
    fail(where, "setmaxnreg_inc() takes registers",
         "setmaxnreg.dec to %u registers a thread, more than the warp's %u", count, warp.count);
  }
  if (count < warp.count) {
    member.free_registers += (warp.count - count) * 32;
    block.wake(member.waiting_for_registers);
  } else {
    const unsigned more = (count - warp.count) * 32;
    if (member.free_registers < more) trace::blocks();
    while (member.free_registers < more) {
      member.waiting_for_registers.set(self.index());
      wait_for(self, WaitKind::kRegisters, count, 0, where);
    }
    member.free_registers -= more;
  }
  warp = {count, true};
}

}  // namespace

namespace model {

void set_registers(unsigned count, bool increase, Location where) {
  const sanitizer::Mute mute;
  Thread& self = this_thread();
  const Block& block = self.home();
  if (self.index() / 128 >= block.thread_count / 128) {
    fail(where, "blocks of a multiple of 128 threads",
         "setmaxnreg by thread %u, which is in no full warpgroup of a block of %u", self.index(),
         block.thread_count);
  }
  warp_collective(Collective::kSyncWarp, ~0u, 0, 0, where);
  if (self.index() % 32 == 0) change(self, count, increase, where);
  warp_collective(Collective::kSyncWarp, ~0u, 0, 0, where);
}

}  // namespace model

}  // namespace rungs::emulator

// Bulk groups: copies out of shared memory, and the threads that wait for them.

#include <rungs/core/error.hpp>

#include "bulk.hpp"
#include "report.hpp"
#include "sanitizer.hpp"
#include "trace_hooks.hpp"
#include "worker.hpp"

#include <algorithm>
#include <utility>

namespace rungs::emulator {
namespace {

BulkGroups::Member& member_of(Block& block, unsigned thread) {
  if (block.bulk_groups == nullptr)
    block.bulk_groups = std::make_shared<BulkGroups>(block.thread_count);
  return block.bulk_groups->members[thread];
}

// What both stages of an operation share.
struct Work {
  Block* block = nullptr;
  unsigned thread = 0;
  std::uint64_t number = 0;
  std::uint32_t id = 0;
  std::unique_ptr<Outgoing> outgoing;

  void progress(bool done) const {
    BulkGroups::Member& member = block->bulk_groups->members[thread];
    BulkGroups::Operation& operation = member.operations[number - member.first];
    (done ? operation.done : operation.read) = true;
    const auto finished = [](const BulkGroups::Operation& one) { return one.done; };
    if (done && std::all_of(member.operations.begin(), member.operations.end(), finished) &&
        member.covered >= member.issued()) {
      member.first = member.issued();
      member.operations.clear();
    }
    sanitizer::release(&block->bulk_groups->token);
    block->wake(block->bulk_groups->waiting);
  }
};

class WriteStage final : public Landing {
 public:
  explicit WriteStage(std::shared_ptr<Work> work) : work_(std::move(work)) {}
  void land(Cluster& cluster, const AsyncOperation& /*operation*/) override {
    work_->outgoing->write();
    this_worker->counters.async_bytes += work_->outgoing->source().range().size_bytes;
    sanitizer::release(
        &cluster.launch->end_token);  // it may be written after the last thread's end
    work_->progress(true);
  }
  [[nodiscard]] trace::Description describe(const Block& /*block*/) const override {
    const SharedSource& source = work_->outgoing->source();
    return {concat(source.instruction(), ": write"), source.range().size_bytes, {}};
  }

 private:
  std::shared_ptr<Work> work_;
};

class ReadStage final : public Landing {
 public:
  explicit ReadStage(std::shared_ptr<Work> work) : work_(std::move(work)) {}
  void land(Cluster& /*cluster*/, const AsyncOperation& operation) override {
    if (!work_->outgoing->source().read(operation.where)) return;
    work_->progress(false);
    submit_copy(*work_->block, work_->id, std::make_unique<WriteStage>(work_), operation.where);
  }
  [[nodiscard]] trace::Description describe(const Block& /*block*/) const override {
    const SharedSource& source = work_->outgoing->source();
    return {concat(source.instruction(), ": read"),
            0,
            {{"from shared offset", concat(source.range().offset)}}};
  }

 private:
  std::shared_ptr<Work> work_;
};

bool reached(const BulkGroups::Member& member, std::uint64_t end, bool read) {
  for (std::uint64_t i = member.first; i < end; i++) {
    const BulkGroups::Operation& operation = member.operations[i - member.first];
    if (!(read ? operation.read : operation.done)) return false;
  }
  return true;
}

}  // namespace

void submit_outgoing(std::uint32_t id, std::unique_ptr<Outgoing> outgoing, Location where) {
  Thread& self = this_thread();
  Block& block = self.home();
  BulkGroups::Member& member = member_of(block, self.index());
  auto work = std::make_shared<Work>();
  work->block = &block;
  work->thread = self.index();
  work->number = member.issued();
  work->id = id;
  trace::instruction(outgoing->source().instruction(), where);
  member.operations.push_back({where, outgoing->source().instruction(), false, false});
  work->outgoing = std::move(outgoing);
  submit_copy(block, id, std::make_unique<ReadStage>(std::move(work)), where);
}

void check_bulk_exit(Block& block) {
  if (block.bulk_groups == nullptr) return;
  for (unsigned t = 0; t < block.thread_count; t++) {
    const BulkGroups::Member& member = block.bulk_groups->members[t];
    if (member.covered >= member.issued()) continue;
    const bool committed = !member.group_ends.empty() && member.group_ends.back() > member.covered;
    const std::uint64_t at = std::max(member.covered, member.first);
    const BulkGroups::Operation& operation = member.operations[at - member.first];
    fail_async(block, operation.where,
               committed ? "bulk_wait_read<0>() by the thread that copies, before it ends"
                         : "bulk_commit() after the copies, then bulk_wait_read<0>()",
               "a block ends while thread %u has not waited for its %s: %llu operations%s; their "
               "source in shared memory may be gone",
               t, operation.instruction,
               static_cast<unsigned long long>(member.issued() - member.covered),
               committed ? "" : ", never committed to a group");
    return;
  }
}

namespace model {

void bulk_commit(Location where) {
  const sanitizer::Mute mute;
  trace::instruction("cp.async.bulk.commit_group", where);
  Thread& self = this_thread();
  BulkGroups::Member& member = member_of(self.home(), self.index());
  member.group_ends.push_back(member.issued());
}

void bulk_wait(int pending, bool read, Location where) {
  const sanitizer::Mute mute;
  Thread& self = this_thread();
  Block& block = self.home();
  BulkGroups::Member& member = member_of(block, self.index());
  trace::instruction(read ? "cp.async.bulk.wait_group.read" : "cp.async.bulk.wait_group", where,
                     pending);
  const auto keep = static_cast<std::size_t>(pending);
  if (member.group_ends.size() <= keep) return;
  const std::uint64_t end = member.group_ends[member.group_ends.size() - keep - 1];
  BulkGroups& groups = *block.bulk_groups;
  if (!reached(member, end, read)) trace::blocks();
  while (!reached(member, end, read)) {
    groups.waiting.set(self.index());
    wait_for(self, WaitKind::kBulk, end, read ? 1 : 0, where);
  }
  member.covered = std::max(member.covered, end);
  // Groups that are over are forgotten, so that the list stays short.
  member.group_ends.erase(member.group_ends.begin(),
                          member.group_ends.end() - static_cast<std::ptrdiff_t>(keep) - 1);
  if (reached(member, member.issued(), false) && member.covered == member.issued()) {
    member.first = member.issued();
    member.operations.clear();
  }
  sanitizer::acquire(&groups.token);
}

}  // namespace model
}  // namespace rungs::emulator

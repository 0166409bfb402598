#pragma once
/// @file bulk.hpp
/// What all bulk copies do: checks of their operands, claiming and completing a destination in
/// shared memory, reading a source there; and the bulk groups of a block's threads.

#include <rungs/emulator/model_bulk.hpp>

#include "cluster.hpp"
#include "thread_set.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace rungs::emulator {

constexpr std::uint32_t kSharedOffsetMask = 0xffffff;

/// Bytes of a block's shared memory.
struct SharedRange {
  Block* block = nullptr;
  std::uint32_t offset = 0;
  std::uint32_t size_bytes = 0;
};

/// The range at a shared::cluster address. Reports a rank beyond the cluster and, if `own`, another
/// block than the caller's.
SharedRange shared_range(std::uint32_t address, std::uint32_t size_bytes, bool own,
                         const char* instruction, Location where);
/// Rules of the one-dimensional forms: size and addresses are multiples of 16 bytes.
void check_bulk_size(std::uint32_t size_bytes, const char* instruction, Location where);
void check_global(const void* pointer, const char* instruction, Location where);
void check_policy(std::uint64_t policy, const char* instruction, Location where);
/// The offset of a copy's mbarrier, which must lie in the destination's block.
std::uint32_t barrier_offset(std::uint32_t address, const Block& destination,
                             const char* instruction, Location where);

/// Checks the destination of copy `id`, issued by `issuer`, and poisons it until the copy lands.
void claim(Block& issuer, const SharedRange& range, std::uint32_t id, const char* instruction,
           Location where);
/// Whether the destination's block still runs; reports if not. Called when a copy lands.
bool destination_lives(const SharedRange& range, const char* instruction, Location where);
/// After memory and view have been written: the range is readable; complete_tx on `barrier`.
void complete(const SharedRange& range, std::uint32_t barrier, Location where);

/// The source of a copy out of shared memory: checked and kept at issue, compared when it is read.
class SharedSource {
 public:
  SharedSource(const SharedRange& range, std::uint32_t id, const char* instruction, Location where);
  /// Reads it. False after reporting that it has changed since the issue, or that its block ended.
  bool read(Location where);
  [[nodiscard]] const std::byte* data() const { return copy_.data(); }
  [[nodiscard]] const SharedRange& range() const { return range_; }
  [[nodiscard]] const char* instruction() const { return instruction_; }

 private:
  SharedRange range_;
  std::uint32_t id_;
  const char* instruction_;
  std::vector<std::byte> copy_;
};

/// Checks granules that an asynchronous engine reads: landed, and fenced if threads wrote them.
/// False after reporting.
bool engine_may_read(const SharedRange& range, const char* instruction, Location where);

/// Queues a copy with its own place in the order.
void submit_copy(Block& issuer, std::uint32_t id, std::unique_ptr<Landing> landing, Location where);

/// A copy or reduction from shared to global memory, of a bulk group.
class Outgoing {
 public:
  explicit Outgoing(SharedSource source) : source_(std::move(source)) {}
  virtual ~Outgoing() = default;
  Outgoing(const Outgoing&) = delete;
  Outgoing& operator=(const Outgoing&) = delete;
  virtual void write() = 0;
  [[nodiscard]] SharedSource& source() { return source_; }

 private:
  SharedSource source_;
};
/// Adds it to the calling thread's open group and queues it.
void submit_outgoing(std::uint32_t id, std::unique_ptr<Outgoing> outgoing, Location where);

/// The bulk groups of a block's threads.
struct BulkGroups {
  struct Operation {
    Location where;
    const char* instruction = "";
    bool read = false;  // its source
    bool done = false;
  };
  struct Member {
    std::uint64_t first = 0;  // number of operations[0]; all before it are done
    std::vector<Operation> operations;
    std::vector<std::uint64_t> group_ends;
    std::uint64_t covered = 0;  // operations that a wait has covered

    [[nodiscard]] std::uint64_t issued() const { return first + operations.size(); }
  };
  explicit BulkGroups(unsigned thread_count) : members(thread_count) {}

  std::vector<Member> members;
  ThreadSet waiting;
  char token = 0;
};

/// Operations that no wait covered when their block ended. (check_exit)
void check_bulk_exit(Block& block);

}  // namespace rungs::emulator

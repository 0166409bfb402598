// Asynchronous stores and reductions into the shared memory of another block (st.async, red.async).

#include <rungs/core/error.hpp>

#include "cluster.hpp"
#include "cluster_memory.hpp"
#include "report.hpp"
#include "sanitizer.hpp"
#include "trace_hooks.hpp"
#include "worker.hpp"

#include <rungs/emulator/model_memory.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace rungs::emulator {
namespace {

using model::Reduction;

constexpr std::uint32_t kOffsetMask = 0xffffff;

struct RemoteWrite final : Landing {
  void land(Cluster& cluster, const AsyncOperation& operation) override;
  [[nodiscard]] trace::Description describe(const Block& /*block*/) const override {
    return {
        reduces ? "red.async" : "st.async",
        size_bytes,
        {{"to block rank", concat(address >> 24)}, {"mbarrier", concat(barrier & kOffsetMask)}}};
  }

  std::uint32_t address = 0;
  std::uint32_t barrier = 0;
  std::uint32_t size_bytes = 0;
  bool reduces = false;
  Reduction reduction{};
  std::byte value[16] = {};
};

std::uint32_t reduced(Reduction reduction, std::uint32_t memory, std::uint32_t value) {
  const auto signed_memory = static_cast<std::int32_t>(memory);
  const auto signed_value = static_cast<std::int32_t>(value);
  switch (reduction) {
    case Reduction::kMinU32:
      return std::min(memory, value);
    case Reduction::kMaxU32:
      return std::max(memory, value);
    case Reduction::kMinS32:
      return static_cast<std::uint32_t>(std::min(signed_memory, signed_value));
    case Reduction::kMaxS32:
      return static_cast<std::uint32_t>(std::max(signed_memory, signed_value));
    case Reduction::kInc:
      return memory >= value ? 0 : memory + 1;
    case Reduction::kDec:
      return memory == 0 || memory > value ? value : memory - 1;
    case Reduction::kAnd:
      return memory & value;
    case Reduction::kOr:
      return memory | value;
    case Reduction::kXor:
      return memory ^ value;
    default:
      return memory + value;
  }
}

void RemoteWrite::land(Cluster& cluster, const AsyncOperation& operation) {
  const char* instruction = reduces ? "red.async" : "st.async";
  std::byte* memory =
      remote_memory(*operation.block, address, size_bytes, instruction, operation.where);
  if (memory == nullptr) return;
  if (!reduces) {
    std::memcpy(memory, value, size_bytes);
  } else if (size_bytes == 8) {
    std::uint64_t sum = 0;
    std::uint64_t summand = 0;
    std::memcpy(&sum, memory, sizeof(sum));
    std::memcpy(&summand, value, sizeof(summand));
    sum += summand;
    std::memcpy(memory, &sum, sizeof(sum));
  } else {
    std::uint32_t word = 0;
    std::uint32_t operand = 0;
    std::memcpy(&word, memory, sizeof(word));
    std::memcpy(&operand, value, sizeof(operand));
    word = reduced(reduction, word, operand);
    std::memcpy(memory, &word, sizeof(word));
  }
  // Reductions are atomic among each other and with atomics: no accesses to race with.
  if (!reduces) sanitizer::access(memory, size_bytes, true);
  this_worker->counters.async_bytes += size_bytes;
  mbarrier_complete_tx(*cluster.blocks[address >> 24], barrier & kOffsetMask, size_bytes,
                       operation.where);
}

// The write is not on the heap yet: a report never returns.
void issue(const RemoteWrite& write, Location where) {
  const char* instruction = write.reduces ? "red.async" : "st.async";
  Block& block = this_thread().home();
  Cluster& cluster = *block.cluster;
  std::byte* memory = remote_memory(block, write.address, write.size_bytes, instruction, where);
  if (write.address >> 24 == block.rank) {
    fail(where, "map_shared() to another rank; in its own block a thread stores and arrives",
         "%s to the executing block's own shared memory", instruction);
  }
  if (write.address >> 24 != write.barrier >> 24) {
    fail(where, "both addresses mapped to the same rank",
         "%s to block rank %u with a barrier of block rank %u", instruction, write.address >> 24,
         write.barrier >> 24);
  }
  SharedMemory& shared = cluster.blocks[write.address >> 24]->shared;
  const std::uint32_t offset = write.address & kOffsetMask;
  if (shared.tracked() && shared.landing(offset) != 0) {
    fail(where, "a stage written before its copy was waited for",
         "race: %s to shared-memory offset %u of block rank %u, where copy #%u is still landing",
         instruction, offset, write.address >> 24, shared.landing(offset));
  }
  if (!write.reduces) std::memset(memory, 0xff, write.size_bytes);
  trace::instruction(instruction, where);
  AsyncOperation operation;
  operation.kind = AsyncOperation::Kind::kCopy;
  operation.block = &block;
  operation.where = where;
  operation.stream = (std::uint64_t{1} << 32) + ++cluster.operation_ids;  // without order
  operation.landing = std::make_unique<RemoteWrite>(write);
  cluster.submit(std::move(operation));
}

}  // namespace

namespace model {

void store_async(std::uint32_t address, const void* value, std::uint32_t size_bytes,
                 std::uint32_t barrier, Location where) {
  const sanitizer::Mute mute;
  RemoteWrite write;
  write.address = address;
  write.barrier = barrier;
  write.size_bytes = size_bytes;
  std::memcpy(write.value, value, size_bytes);
  issue(write, where);
}

void reduce_async(std::uint32_t address, Reduction reduction, std::uint64_t value,
                  std::uint32_t barrier, Location where) {
  const sanitizer::Mute mute;
  RemoteWrite write;
  write.address = address;
  write.barrier = barrier;
  write.size_bytes = reduction == Reduction::kAddU64 ? 8 : 4;
  write.reduces = true;
  write.reduction = reduction;
  std::memcpy(write.value, &value, write.size_bytes);
  issue(write, where);
}

}  // namespace model
}  // namespace rungs::emulator

// The one-dimensional bulk copies and reductions.

#include <rungs/core/error.hpp>

#include "bulk.hpp"
#include "bulk_reduce.hpp"
#include "report.hpp"
#include "sanitizer.hpp"
#include "trace_hooks.hpp"
#include "worker.hpp"

#include <bit>
#include <cstring>
#include <memory>
#include <utility>

namespace rungs::emulator {
namespace {

constexpr int kPoison = 0xff;

void write_shared(const SharedRange& range, const std::byte* from) {
  SharedMemory& shared = range.block->shared;
  sanitizer::unpoison(shared.at(range.offset), range.size_bytes);
  std::memcpy(shared.at(range.offset), from, range.size_bytes);
  std::memcpy(shared.view(range.offset), from, range.size_bytes);
}

void check_destination(const SharedRange& range, const char* instruction, Location where) {
  if (range.offset % 16 == 0) return;
  fail(where, "alignas(16) on the destination",
       "%s: the destination at shared-memory offset %u is not 16-byte aligned", instruction,
       range.offset);
}

constexpr const char* kLoad = "cp.async.bulk to shared memory";

struct BulkLoad final : Landing {
  void land(Cluster& cluster, const AsyncOperation& operation) override {
    for (unsigned r = 0; r < cluster.blocks.size(); r++) {
      if ((cluster_mask >> r & 1) == 0) continue;
      const SharedRange range{cluster.blocks[r].get(), destination, size_bytes};
      if (!destination_lives(range, kLoad, operation.where)) return;
      sanitizer::access(source, size_bytes, false);
      write_shared(range, source);
      complete(range, barrier, operation.where);
    }
  }

  [[nodiscard]] trace::Description describe(const Block& /*block*/) const override {
    const auto destinations = static_cast<unsigned>(std::popcount(unsigned{cluster_mask}));
    return {"bulk load",
            std::uint64_t{size_bytes} * destinations,
            {{"to shared offset", concat(destination)}, {"mbarrier", concat(barrier)}}};
  }

  const std::byte* source = nullptr;
  std::uint32_t destination = 0;
  std::uint32_t size_bytes = 0;
  std::uint32_t barrier = 0;
  std::uint16_t cluster_mask = 0;
};

class BulkStore final : public Outgoing {
 public:
  BulkStore(SharedSource source, std::byte* destination)
      : Outgoing(std::move(source)),
        destination_(destination) {
    std::memset(destination_, kPoison, this->source().range().size_bytes);
  }
  void write() override {
    const std::uint32_t size = source().range().size_bytes;
    std::memcpy(destination_, source().data(), size);
    sanitizer::access(destination_, size, true);
  }

 private:
  std::byte* destination_;
};

class BulkReduce final : public Outgoing {
 public:
  BulkReduce(SharedSource source, std::byte* destination, gpu::BulkReduction reduction,
             gpu::TensorElement element)
      : Outgoing(std::move(source)),
        destination_(destination),
        reduction_(reduction),
        element_(element) {}
  // Others may reduce into the same elements meanwhile: TSan is not told.
  void write() override {
    reduce_elements(destination_, source().data(), source().range().size_bytes, reduction_,
                    element_);
  }

 private:
  std::byte* destination_;
  gpu::BulkReduction reduction_;
  gpu::TensorElement element_;
};

// Shared memory to shared memory: the source is read when the copy lands.
class ClusterCopy : public Landing {
 public:
  ClusterCopy(SharedSource source, const SharedRange& destination, std::uint32_t barrier)
      : source_(std::move(source)),
        destination_(destination),
        barrier_(barrier) {}
  void land(Cluster& /*cluster*/, const AsyncOperation& operation) override {
    if (!destination_lives(destination_, source_.instruction(), operation.where)) return;
    if (!source_.read(operation.where)) return;
    if (!write(operation.where)) return;
    complete(destination_, barrier_, operation.where);
  }
  [[nodiscard]] trace::Description describe(const Block& /*block*/) const override {
    return {source_.instruction(), destination_.size_bytes, {{"mbarrier", concat(barrier_)}}};
  }

 protected:
  virtual bool write(Location /*where*/) {
    write_shared(destination_, source_.data());
    return true;
  }
  SharedSource source_;
  SharedRange destination_;

 private:
  std::uint32_t barrier_;
};

class ClusterReduction final : public ClusterCopy {
 public:
  ClusterReduction(SharedSource source, const SharedRange& destination, std::uint32_t barrier,
                   gpu::BulkReduction reduction, gpu::TensorElement element)
      : ClusterCopy(std::move(source), destination, barrier),
        reduction_(reduction),
        element_(element) {}

 private:
  bool write(Location where) override {
    if (!engine_may_read(destination_, source_.instruction(), where)) return false;
    SharedMemory& shared = destination_.block->shared;
    std::byte* at = shared.at(destination_.offset);
    reduce_elements(at, source_.data(), destination_.size_bytes, reduction_, element_);
    std::memcpy(shared.view(destination_.offset), at, destination_.size_bytes);
    return true;
  }

  gpu::BulkReduction reduction_;
  gpu::TensorElement element_;
};

void check_reduction(gpu::BulkReduction reduction, gpu::TensorElement element, bool global,
                     const char* instruction, Location where) {
  if (reduction_exists(reduction, element, global)) return;
  fail(where, "the table of operations and types in the ISA", "%s: .%s.%s does not exist",
       instruction, name_of(reduction), name_of(element));
}

}  // namespace

namespace model {

void bulk_load(std::uint32_t destination, const void* source, std::uint32_t size_bytes,
               std::uint32_t barrier, std::uint16_t cluster_mask, std::uint64_t policy,
               Location where) {
  const sanitizer::Mute mute;
  Block& block = this_thread().home();
  Cluster& cluster = *block.cluster;
  check_policy(policy, kLoad, where);
  check_bulk_size(size_bytes, kLoad, where);
  check_global(source, kLoad, where);
  const SharedRange target = shared_range(destination, size_bytes, cluster_mask != 0, kLoad, where);
  check_destination(target, kLoad, where);
  BulkLoad copy;  // not on the heap: a report never returns
  copy.source = static_cast<const std::byte*>(source);
  copy.destination = target.offset;
  copy.size_bytes = size_bytes;
  copy.barrier = barrier_offset(barrier, *target.block, kLoad, where);
  copy.cluster_mask =
      cluster_mask != 0 ? cluster_mask : static_cast<std::uint16_t>(1u << target.block->rank);
  if ((copy.cluster_mask >> cluster.blocks.size()) != 0) {
    fail(where, "LaunchConfig::cluster", "%s: multicast mask %04x in a cluster of %zu", kLoad,
         copy.cluster_mask, cluster.blocks.size());
  }
  const std::uint32_t id = ++cluster.operation_ids;
  for (unsigned r = 0; r < cluster.blocks.size(); r++) {
    if ((copy.cluster_mask >> r & 1) == 0) continue;
    claim(block, {cluster.blocks[r].get(), target.offset, size_bytes}, id, kLoad, where);
  }
  trace::instruction("cp.async.bulk", where);
  submit_copy(block, id, std::make_unique<BulkLoad>(copy), where);
}

void bulk_store(void* destination, std::uint32_t source, std::uint32_t size_bytes,
                std::uint64_t policy, Location where) {
  const sanitizer::Mute mute;
  constexpr const char* kStore = "cp.async.bulk to global memory";
  check_policy(policy, kStore, where);
  check_bulk_size(size_bytes, kStore, where);
  check_global(destination, kStore, where);
  const SharedRange from = shared_range(source, size_bytes, true, kStore, where);
  const std::uint32_t id = ++from.block->cluster->operation_ids;
  submit_outgoing(id,
                  std::make_unique<BulkStore>(SharedSource(from, id, kStore, where),
                                              static_cast<std::byte*>(destination)),
                  where);
}

void bulk_reduce(void* destination, std::uint32_t source, std::uint32_t size_bytes,
                 gpu::BulkReduction reduction, gpu::TensorElement element, std::uint64_t policy,
                 Location where) {
  const sanitizer::Mute mute;
  constexpr const char* kReduce = "cp.reduce.async.bulk to global memory";
  check_policy(policy, kReduce, where);
  check_bulk_size(size_bytes, kReduce, where);
  check_global(destination, kReduce, where);
  check_reduction(reduction, element, true, kReduce, where);
  const SharedRange from = shared_range(source, size_bytes, true, kReduce, where);
  const std::uint32_t id = ++from.block->cluster->operation_ids;
  submit_outgoing(
      id,
      std::make_unique<BulkReduce>(SharedSource(from, id, kReduce, where),
                                   static_cast<std::byte*>(destination), reduction, element),
      where);
}

void bulk_copy_cluster(std::uint32_t destination, std::uint32_t source, std::uint32_t size_bytes,
                       std::uint32_t barrier, Location where) {
  const sanitizer::Mute mute;
  constexpr const char* kCopy = "cp.async.bulk between shared memories";
  check_bulk_size(size_bytes, kCopy, where);
  const SharedRange from = shared_range(source, size_bytes, true, kCopy, where);
  const SharedRange to = shared_range(destination, size_bytes, false, kCopy, where);
  check_destination(to, kCopy, where);
  const std::uint32_t arrives = barrier_offset(barrier, *to.block, kCopy, where);
  const std::uint32_t id = ++from.block->cluster->operation_ids;
  SharedSource read(from, id, kCopy, where);
  claim(*from.block, to, id, kCopy, where);
  trace::instruction("cp.async.bulk", where);
  submit_copy(*from.block, id, std::make_unique<ClusterCopy>(std::move(read), to, arrives), where);
}

void bulk_reduce_cluster(std::uint32_t destination, std::uint32_t source, std::uint32_t size_bytes,
                         std::uint32_t barrier, gpu::BulkReduction reduction,
                         gpu::TensorElement element, Location where) {
  const sanitizer::Mute mute;
  constexpr const char* kReduce = "cp.reduce.async.bulk between shared memories";
  check_bulk_size(size_bytes, kReduce, where);
  check_reduction(reduction, element, false, kReduce, where);
  const SharedRange from = shared_range(source, size_bytes, true, kReduce, where);
  const SharedRange to = shared_range(destination, size_bytes, false, kReduce, where);
  check_destination(to, kReduce, where);
  if (!to.block->shared.contains(to.offset, size_bytes)) {
    fail(where, "the size, and the launch's shared memory",
         "%s writes shared memory out of bounds: offset %u, %u bytes", kReduce, to.offset,
         size_bytes);
  }
  const std::uint32_t arrives = barrier_offset(barrier, *to.block, kReduce, where);
  const std::uint32_t id = ++from.block->cluster->operation_ids;
  SharedSource read(from, id, kReduce, where);
  to.block->shared.track();
  trace::instruction("cp.reduce.async.bulk", where);
  submit_copy(*from.block, id,
              std::make_unique<ClusterReduction>(std::move(read), to, arrives, reduction, element),
              where);
}

void bulk_prefetch(const void* source, std::uint32_t size_bytes, std::uint64_t policy,
                   Location where) {
  const sanitizer::Mute mute;
  constexpr const char* kPrefetch = "cp.async.bulk.prefetch.L2";
  check_policy(policy, kPrefetch, where);
  check_bulk_size(size_bytes, kPrefetch, where);
  check_global(source, kPrefetch, where);
  trace::instruction(kPrefetch, where);
}

}  // namespace model
}  // namespace rungs::emulator

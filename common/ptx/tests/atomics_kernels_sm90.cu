// Kernels of the conformance suite: atomics of every operation, type, order and scope.

#include "memory_conformance.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/atomic_ops.hpp>
#include <rungs/ptx/atomic_wide.hpp>
#include <rungs/ptx/sync.hpp>

#include <cstring>

namespace rungs::ptx::test {
namespace {

// What all types have. The operands depend on the thread such that no order matters.
template <Scope kScope, Order kOrder, class T>
RUNGS_DEVICE void common(T (*cells)[4], std::uint32_t thread) {
  constexpr int kColumn = static_cast<int>(kOrder);
  const T value = static_cast<T>(thread) * 3 - 300;
  const T bit = static_cast<T>(T{1} << thread % (8 * sizeof(T) - 1));
  atom_add<kScope, kOrder>(&cells[0][kColumn], value);
  atom_min<kScope, kOrder>(&cells[1][kColumn], value);
  atom_max<kScope, kOrder>(&cells[2][kColumn], value);
  atom_and<kScope, kOrder>(&cells[3][kColumn], static_cast<T>(~(bit & 0x55555555)));
  atom_or<kScope, kOrder>(&cells[4][kColumn], static_cast<T>(bit & 0x33333333));
  atom_xor<kScope, kOrder>(&cells[5][kColumn], value);
  atom_exch<kScope, kOrder>(&cells[8][kColumn], T{-42 + 84});
  const bool won = atom_cas<kScope, kOrder>(&cells[9][kColumn], T{0}, T{7}) == 0;
  if (won) atom_add<kScope, kOrder>(&cells[8 - 2][kColumn], T{1000});  // once
}

template <Scope kScope, Order kOrder>
RUNGS_DEVICE void all_types(AtomicTable* table, std::uint32_t thread) {
  common<kScope, kOrder>(table->u32, thread);
  common<kScope, kOrder>(table->i32, thread);
  common<kScope, kOrder>(table->u64, thread);
  common<kScope, kOrder>(table->i64, thread);
  constexpr int kColumn = static_cast<int>(kOrder);
  atom_inc<kScope, kOrder>(&table->u32[7][kColumn], 99u);
  if constexpr (kOrder == Order::kRelaxed || kOrder == Order::kRelease) {
    constexpr int kCell = static_cast<int>(kScope);
    red_add<kScope, kOrder>(&table->reds[0][kCell], thread);
    red_min<kScope, kOrder>(&table->reds[1][kCell], 1000 - thread);
    red_max<kScope, kOrder>(&table->reds[2][kCell], thread * 5);
    red_and<kScope, kOrder>(&table->reds[3][kCell], ~(1u << thread % 16));
    red_or<kScope, kOrder>(&table->reds[4][kCell], 1u << thread % 16);
    red_xor<kScope, kOrder>(&table->reds[5][kCell], thread * (kOrder == Order::kRelaxed ? 1 : 7));
    red_inc<kScope, kOrder>(&table->reds[6][kCell], 50u);
    red_dec<kScope, kOrder>(&table->reds[7][kCell], 70u);
  }
}

template <Scope kScope>
RUNGS_DEVICE void all_orders(AtomicTable* table, std::uint32_t thread) {
  all_types<kScope, Order::kRelaxed>(table, thread);
  all_types<kScope, Order::kAcquire>(table, thread);
  all_types<kScope, Order::kRelease>(table, thread);
  all_types<kScope, Order::kAcqRel>(table, thread);
}

RUNGS_KERNEL(64) table_kernel(AtomicTable* table) {
  const std::uint32_t thread = blockIdx.x * 64 + threadIdx.x;
  // Scopes narrower than the grid: only one block at a time may use the cells. Each block has its
  // own table for those.
  AtomicTable* mine = table + blockIdx.x;
  all_orders<Scope::kCta>(mine, thread);
  syncthreads();
  all_orders<Scope::kCluster>(mine, thread);
  syncthreads();
  AtomicTable* shared = table + 4;
  all_orders<Scope::kGpu>(shared, thread);
  all_orders<Scope::kSys>(shared, thread);

  auto* wide = reinterpret_cast<U64x2*>(shared->wide);
  atom_exch_b128<Scope::kGpu, Order::kAcqRel>(&wide[0], U64x2{5, 6});
  atom_cas_b128<Scope::kSys, Order::kRelease>(&wide[1], U64x2{0, 0}, U64x2{7, 8});
  // Adds 2^63 to 128 bits.
  U64x2 seen{0, 0};
  for (;;) {
    const std::uint64_t low = seen.low + (std::uint64_t{1} << 63);
    const U64x2 next{low, seen.high + (low < seen.low ? 1 : 0)};
    const U64x2 before = atom_cas_b128(&wide[2], seen, next);
    if (before.low == seen.low && before.high == seen.high) break;
    seen = before;
  }
  const auto real = static_cast<float>(thread);
  atom_add(&shared->f32[0], real);
  red_add(&shared->f32[1], real * 0.5f);
  red_add_v4(&shared->f32[4], 1.0f, real, -real, 0.25f);
  red_add_v2<Scope::kSys, Order::kRelease>(&shared->f32[8], 2.0f, real);
  atom_add<Scope::kSys, Order::kAcquire>(&shared->f64[0], static_cast<double>(thread) * 0.125);
  red_add(&shared->f64[1], 1.0);
}

RUNGS_KERNEL(64) sums_kernel(SumCase* f32, SumCase* f16, SumCase* bf16, unsigned count) {
  for (unsigned i = threadIdx.x; i < count; i += 64) {
    float addend, before;
    memcpy(&addend, &f32[i].addend, sizeof(addend));
    before = atom_add(reinterpret_cast<float*>(&f32[i].cell), addend);
    memcpy(&f32[i].before, &before, sizeof(before));
    f16[i].before = atom_add(reinterpret_cast<F16x2*>(&f16[i].cell), F16x2{f16[i].addend}).bits;
    bf16[i].before = bf16[i].cell;
    red_add(reinterpret_cast<Bf16x2*>(&bf16[i].cell), Bf16x2{bf16[i].addend});
  }
}

RUNGS_KERNEL(64) shared_sums_kernel(SumCase* f32, unsigned count) {
  RUNGS_SHARED_ARRAY(float, cells, 64);
  for (unsigned first = 0; first < count; first += 64) {
    const unsigned i = first + threadIdx.x;
    if (i >= count) continue;
    float addend;
    memcpy(&addend, &f32[i].addend, sizeof(addend));
    memcpy(&cells[threadIdx.x], &f32[i].cell, sizeof(float));
    const float before = atom_add<Scope::kCta>(&cells[threadIdx.x], addend);
    memcpy(&f32[i].before, &before, sizeof(before));
    memcpy(&f32[i].cell, &cells[threadIdx.x], sizeof(float));
  }
}

}  // namespace

void launch_atomic_table(StreamHandle stream, AtomicTable* table) {
  gpu::launch("atomic_table", {.grid = {4}, .block = {64}}, stream, table_kernel, table);
}
void launch_sums(StreamHandle stream, SumCase* f32, SumCase* f16, SumCase* bf16, unsigned count) {
  gpu::launch("sums", {.grid = {1}, .block = {64}}, stream, sums_kernel, f32, f16, bf16, count);
}
void launch_shared_sums(StreamHandle stream, SumCase* f32, unsigned count) {
  gpu::launch("shared_sums", {.grid = {1}, .block = {64}}, stream, shared_sums_kernel, f32, count);
}

}  // namespace rungs::ptx::test

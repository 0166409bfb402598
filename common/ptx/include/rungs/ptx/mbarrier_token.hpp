#pragma once
/// @file mbarrier_token.hpp
/// mbarriers beyond a pipeline's needs: the token that an arrival returns and waits by it, arrivals
/// that must not or no longer count, complete_tx by hand, relaxed forms.
///
/// A token stands for the phase in which its arrival took place. It may be asked for while that
/// phase is the current one or the one before.

#include <rungs/ptx/mbarrier.hpp>

namespace rungs::ptx {

#if !RUNGS_GPU_CUDA
namespace detail {
inline emulator::model::MbarrierUpdate arrivals(std::uint32_t address, std::uint32_t count) {
  emulator::model::MbarrierUpdate update;
  update.address = address;
  update.arrivals = count;
  return update;
}
}  // namespace detail
#endif

/// `count` arrivals; returns the token of their phase; releases. Any thread. PTX: mbarrier.arrive.
RUNGS_DEVICE std::uint64_t mbarrier_arrive_token(std::uint64_t* barrier,
                                                 std::uint32_t count = 1 RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  std::uint64_t token;
  asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1], %2;"
               : "=l"(token)
               : "r"(shared_u32(barrier)), "r"(count)
               : "memory");
  return token;
#else
  return emulator::model::mbarrier_update(detail::arrivals(shared_u32(barrier, where), count),
                                          "mbarrier.arrive", where);
#endif
}

/// expect_tx of `size_bytes` and one arrival; returns the token; releases. Any thread. PTX:
/// mbarrier.arrive.expect_tx.
RUNGS_DEVICE std::uint64_t mbarrier_arrive_expect_tx_token(
    std::uint64_t* barrier, std::uint32_t size_bytes RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  std::uint64_t token;
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 %0, [%1], %2;"
               : "=l"(token)
               : "r"(shared_u32(barrier)), "r"(size_bytes)
               : "memory");
  return token;
#else
  emulator::model::MbarrierUpdate update = detail::arrivals(shared_u32(barrier, where), 1);
  update.expect_bytes = size_bytes;
  return emulator::model::mbarrier_update(update, "mbarrier.arrive.expect_tx", where);
#endif
}

/// `count` arrivals that must not end the phase (the emulator reports one that does); returns the
/// token, of which mbarrier_pending_count() may be asked. PTX: mbarrier.arrive.noComplete.
RUNGS_DEVICE std::uint64_t mbarrier_arrive_no_complete(std::uint64_t* barrier,
                                                       std::uint32_t count RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  std::uint64_t token;
  asm volatile("mbarrier.arrive.noComplete.shared::cta.b64 %0, [%1], %2;"
               : "=l"(token)
               : "r"(shared_u32(barrier)), "r"(count)
               : "memory");
  return token;
#else
  emulator::model::MbarrierUpdate update = detail::arrivals(shared_u32(barrier, where), count);
  update.no_complete = true;
  return emulator::model::mbarrier_update(update, "mbarrier.arrive.noComplete", where);
#endif
}

/// `count` arrivals, by which the later phases wait for `count` fewer; returns the token; releases.
/// For threads that leave a loop early. PTX: mbarrier.arrive_drop.
RUNGS_DEVICE std::uint64_t mbarrier_arrive_drop(std::uint64_t* barrier,
                                                std::uint32_t count = 1 RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  std::uint64_t token;
  asm volatile("mbarrier.arrive_drop.shared::cta.b64 %0, [%1], %2;"
               : "=l"(token)
               : "r"(shared_u32(barrier)), "r"(count)
               : "memory");
  return token;
#else
  emulator::model::MbarrierUpdate update = detail::arrivals(shared_u32(barrier, where), count);
  update.drop = true;
  return emulator::model::mbarrier_update(update, "mbarrier.arrive_drop", where);
#endif
}

/// mbarrier_arrive_drop() that must not end the phase. PTX: mbarrier.arrive_drop.noComplete.
RUNGS_DEVICE std::uint64_t mbarrier_arrive_drop_no_complete(std::uint64_t* barrier,
                                                            std::uint32_t count RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  std::uint64_t token;
  asm volatile("mbarrier.arrive_drop.noComplete.shared::cta.b64 %0, [%1], %2;"
               : "=l"(token)
               : "r"(shared_u32(barrier)), "r"(count)
               : "memory");
  return token;
#else
  emulator::model::MbarrierUpdate update = detail::arrivals(shared_u32(barrier, where), count);
  update.drop = true;
  update.no_complete = true;
  return emulator::model::mbarrier_update(update, "mbarrier.arrive_drop.noComplete", where);
#endif
}

/// mbarrier_arrive_drop() at a barrier of any block of the cluster, without a token. PTX:
/// mbarrier.arrive_drop.release.cluster.shared::cluster.
RUNGS_DEVICE void mbarrier_arrive_drop_cluster(std::uint32_t cluster_address,
                                               std::uint32_t count = 1 RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile("mbarrier.arrive_drop.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(
                   cluster_address),
               "r"(count)
               : "memory");
#else
  emulator::model::MbarrierUpdate update = detail::arrivals(cluster_address, count);
  update.drop = true;
  emulator::model::mbarrier_update(update, "mbarrier.arrive_drop", where);
#endif
}

/// `count` arrivals that release nothing: for who has written nothing, such as a consumer that only
/// read. PTX: mbarrier.arrive.relaxed.cta.
RUNGS_DEVICE void mbarrier_arrive_relaxed(std::uint64_t* barrier,
                                          std::uint32_t count = 1 RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile(
      "mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%0], %1;" ::"r"(shared_u32(barrier)),
      "r"(count)
      : "memory");
#else
  emulator::model::MbarrierUpdate update = detail::arrivals(shared_u32(barrier, where), count);
  update.relaxed = true;
  emulator::model::mbarrier_update(update, "mbarrier.arrive.relaxed", where);
#endif
}

/// The same at a barrier of any block of the cluster. PTX: mbarrier.arrive.relaxed.cluster.
RUNGS_DEVICE void mbarrier_arrive_relaxed_cluster(std::uint32_t cluster_address,
                                                  std::uint32_t count = 1 RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile(
      "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(cluster_address),
      "r"(count)
      : "memory");
#else
  emulator::model::MbarrierUpdate update = detail::arrivals(cluster_address, count);
  update.relaxed = true;
  emulator::model::mbarrier_update(update, "mbarrier.arrive.relaxed", where);
#endif
}

/// Takes `size_bytes` off the bytes that the phase waits for, as if they had been copied; orders
/// nothing. Any thread. PTX: mbarrier.complete_tx.relaxed.cta.shared::cta.
RUNGS_DEVICE void mbarrier_complete_tx(std::uint64_t* barrier,
                                       std::uint32_t size_bytes RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile(
      "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_u32(barrier)),
      "r"(size_bytes)
      : "memory");
#else
  emulator::model::MbarrierUpdate update;
  update.address = shared_u32(barrier, where);
  update.complete_bytes = size_bytes;
  update.relaxed = true;
  emulator::model::mbarrier_update(update, "mbarrier.complete_tx", where);
#endif
}

/// The same at a barrier of any block of the cluster. PTX:
/// mbarrier.complete_tx.relaxed.cluster.shared::cluster.
RUNGS_DEVICE void mbarrier_complete_tx_cluster(std::uint32_t cluster_address,
                                               std::uint32_t size_bytes RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  asm volatile(
      "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], %1;" ::"r"(cluster_address),
      "r"(size_bytes)
      : "memory");
#else
  emulator::model::MbarrierUpdate update;
  update.address = cluster_address;
  update.complete_bytes = size_bytes;
  update.relaxed = true;
  emulator::model::mbarrier_update(update, "mbarrier.complete_tx", where);
#endif
}

/// The arrivals that were pending before the one that returned `token`, which must be a
/// no_complete one. Any thread. PTX: mbarrier.pending_count.
RUNGS_DEVICE std::uint32_t mbarrier_pending_count(std::uint64_t token RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  std::uint32_t count;
  asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(count) : "l"(token));
  return count;
#else
  return emulator::model::mbarrier_pending_count(token, where);
#endif
}

/// Whether the token's phase is over, without waiting; acquires if true. Any thread of the block.
/// PTX: mbarrier.test_wait.
RUNGS_DEVICE bool mbarrier_test_wait_token(std::uint64_t* barrier,
                                           std::uint64_t token RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  std::uint32_t over;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.test_wait.shared::cta.b64 p, [%1], %2;\n"
      "selp.b32 %0, 1, 0, p;\n}"
      : "=r"(over)
      : "r"(shared_u32(barrier)), "l"(token)
      : "memory");
  return over != 0;
#else
  return emulator::model::mbarrier_test_token(shared_u32(barrier, where), token, false, where);
#endif
}

/// The same; may wait a little first. PTX: mbarrier.try_wait.
RUNGS_DEVICE bool mbarrier_try_wait_token(std::uint64_t* barrier,
                                          std::uint64_t token RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  std::uint32_t over;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.shared::cta.b64 p, [%1], %2;\n"
      "selp.b32 %0, 1, 0, p;\n}"
      : "=r"(over)
      : "r"(shared_u32(barrier)), "l"(token)
      : "memory");
  return over != 0;
#else
  return emulator::model::mbarrier_test_token(shared_u32(barrier, where), token, false, where);
#endif
}

/// mbarrier_try_wait_token() until it is true.
RUNGS_DEVICE void mbarrier_wait_token(std::uint64_t* barrier, std::uint64_t token RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  while (!mbarrier_try_wait_token(barrier, token)) {
  }
#else
  emulator::model::mbarrier_test_token(shared_u32(barrier, where), token, true, where);
#endif
}

/// mbarrier_try_wait() that acquires nothing: to learn that a phase is over, not to read what was
/// written in it. PTX: mbarrier.try_wait.parity.relaxed.cta.
RUNGS_DEVICE bool mbarrier_try_wait_relaxed(std::uint64_t* barrier,
                                            std::uint32_t parity RUNGS_AND_WHERE) {
#if RUNGS_GPU_CUDA
  std::uint32_t over;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 p, [%1], %2;\n"
      "selp.b32 %0, 1, 0, p;\n}"
      : "=r"(over)
      : "r"(shared_u32(barrier)), "r"(parity)
      : "memory");
  return over != 0;
#else
  return emulator::model::mbarrier_test(shared_u32(barrier, where), parity, false, where);
#endif
}

}  // namespace rungs::ptx

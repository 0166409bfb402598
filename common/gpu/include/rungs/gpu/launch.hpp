#pragma once
/// @file launch.hpp
/// Launching a kernel on either machine. A kernel is a function `void kernel(P...)` declared with
/// RUNGS_KERNEL (rungs/gpu/kernel.hpp); every parameter is trivially copyable, so that a capture
/// can keep it.

#include <rungs/gpu/device.hpp>

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

namespace rungs::gpu {

/// Shape of a launch.
struct LaunchConfig {
  Dim3 grid;
  Dim3 block;
  unsigned shared_bytes = 0;  ///< dynamic shared memory a block
  Dim3 cluster{};             ///< blocks a cluster; grid must be a multiple
  bool cooperative =
      false;  ///< all blocks resident at once: kernels whose blocks wait for each other
  /// May start before the kernel ahead of it on the stream has ended, as soon as all blocks of that
  /// one have called ptx::launch_dependents() or ended. It must call
  /// ptx::wait_for_prerequisites() before it reads what that kernel writes, and before it writes
  /// what that kernel reads. CUDA: programmatic stream serialization.
  bool programmatic = false;
};

/// Parameters of one launch: addresses and sizes, in order. Copied before launch_raw() returns.
struct KernelArgs {
  void** pointers;
  const std::size_t* sizes_bytes;
  int count;
};

/// Runs one emulated thread's body: calls the kernel with the parameters at `args`. Null in CUDA
/// builds.
using Invoke = void (*)(const void* kernel, void** args);

/// The back end's entry. Use launch().
void launch_raw(std::string_view name, const LaunchConfig& config, StreamHandle stream,
                const void* kernel, Invoke invoke, const KernelArgs& args);

namespace detail {
template <class... P, std::size_t... I>
void invoke_with(const void* kernel, [[maybe_unused]] void** args, std::index_sequence<I...>) {
  reinterpret_cast<void (*)(P...)>(const_cast<void*>(kernel))(*static_cast<P*>(args[I])...);
}
template <class... P>
void invoke_kernel(const void* kernel, void** args) {
  invoke_with<P...>(kernel, args, std::index_sequence_for<P...>{});
}

/// The Invoke of a kernel with parameters P. In CUDA builds a kernel is no function the host may
/// call, so nothing is instantiated.
template <class... P>
constexpr Invoke invoke_of() {
  if constexpr (RUNGS_GPU_CUDA) {
    return nullptr;
  } else {
    return &invoke_kernel<P...>;
  }
}
}  // namespace detail

/// Enqueues `kernel` on `stream` and returns.
/// @param name how reports and traces call it
/// @throws Error kInvalidArgument for an impossible shape; kUnsupported for a cooperative grid that
///         does not fit; kCuda if the launch fails. What goes wrong inside the kernel is thrown by
///         synchronize().
template <class... P, class... A>
void launch(std::string_view name, const LaunchConfig& config, StreamHandle stream,
            void (*kernel)(P...), A&&... args) {
  static_assert(sizeof...(P) == sizeof...(A), "launch: number of kernel arguments");
  static_assert((std::is_trivially_copyable_v<P> && ...),
                "kernel parameters are stored by captures");
  [&](P... values) {
    void* pointers[] = {static_cast<void*>(&values)..., nullptr};
    const std::size_t sizes_bytes[] = {sizeof(P)..., 0};
    launch_raw(name, config, stream, reinterpret_cast<const void*>(kernel),
               detail::invoke_of<P...>(),
               KernelArgs{pointers, sizes_bytes, static_cast<int>(sizeof...(P))});
  }(static_cast<P>(std::forward<A>(args))...);
}

}  // namespace rungs::gpu

// Kernels of the conformance suite: reductions, matches and segments of a warp; integer
// instructions; conversions.

#include "warp_conformance.hpp"

#include <rungs/gpu/kernel.hpp>
#include <rungs/ptx/convert.hpp>
#include <rungs/ptx/integer.hpp>
#include <rungs/ptx/warp.hpp>

namespace rungs::ptx::test {
namespace {

constexpr std::uint32_t kAll = ~0u;
constexpr std::uint32_t kLower = 0xfffffu;

RUNGS_KERNEL(64) redux_kernel(const std::uint32_t* in, std::uint32_t* out) {
  const unsigned t = threadIdx.x;
  const std::uint32_t value = in[t];
  const auto number = static_cast<std::int32_t>(value);
  out[t] = redux_add(kAll, value);
  out[64 + t] = redux_min(kAll, value);
  out[128 + t] = redux_max(kAll, value);
  out[192 + t] = static_cast<std::uint32_t>(redux_add(kAll, number));
  out[256 + t] = static_cast<std::uint32_t>(redux_min(kAll, number));
  out[320 + t] = static_cast<std::uint32_t>(redux_max(kAll, number));
  out[384 + t] = redux_and(kAll, value | 0x11000u);
  out[448 + t] = redux_or(kAll, value & 0xf0f0f0f0u);
  out[512 + t] = redux_xor(kAll, value);
  if (t % 32 < 20) {
    out[576 + t] = redux_add(kLower, value);
    out[640 + t] = redux_min(kLower, value);
    out[704 + t] = static_cast<std::uint32_t>(redux_max(kLower, number));
  } else {
    out[576 + t] = redux_add(~kLower, value);
    out[640 + t] = redux_min(~kLower, value);
    out[704 + t] = static_cast<std::uint32_t>(redux_max(~kLower, number));
  }
}

RUNGS_KERNEL(64) match_kernel(const std::uint32_t* in, std::uint32_t* out) {
  const unsigned t = threadIdx.x;
  const std::uint32_t value = in[t] % 5;
  const std::uint64_t wide = std::uint64_t{value % 2} << 40 | 7;
  out[t] = match_any(kAll, value);
  out[64 + t] = match_any(kAll, wide);
  out[128 + t] = match_all(kAll, t / 32 + 9);
  out[192 + t] = match_all(kAll, value);
  out[256 + t] = match_all(kAll, std::uint64_t{t / 32} << 33);
  if (t % 32 < 20) {
    out[320 + t] = match_any(kLower, value);
  } else {
    out[320 + t] = match_any(~kLower, value);
  }
}

RUNGS_KERNEL(64) lanes_kernel(std::uint32_t* out) {
  const unsigned t = threadIdx.x;
  out[t] = lane_id();
  out[64 + t] = lanemask_lt();
  out[128 + t] = lanemask_le();
  out[192 + t] = lanemask_eq();
  out[256 + t] = lanemask_ge();
  out[320 + t] = lanemask_gt();
  out[384 + t] = active_mask();
}

template <int Width>
RUNGS_DEVICE void segments(std::uint32_t* out, unsigned t, int other) {
  const std::uint32_t value = t * 7 + 1;
  out[t] = shfl_idx_segment<Width>(kAll, value, 5);
  out[64 + t] = shfl_xor_segment<Width>(kAll, value, other);
  out[128 + t] = shfl_down_segment<Width>(kAll, value, 3);
  out[192 + t] = shfl_up_segment<Width>(kAll, value, 3);
}

RUNGS_KERNEL(64) segments_kernel(std::uint32_t* out) {
  segments<4>(out, threadIdx.x, 6);
  segments<8>(out + 256, threadIdx.x, 9);
  segments<16>(out + 512, threadIdx.x, 6);
}

RUNGS_KERNEL(64)
integers_kernel(const std::uint32_t* a, const std::uint32_t* b, const std::uint32_t* c,
                std::uint32_t* out, unsigned count) {
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
    out[i] = prmt(a[i], b[i], c[i]);
    out[count + i] = static_cast<std::uint32_t>(dp4a(static_cast<std::int32_t>(a[i]),
                                                     static_cast<std::int32_t>(b[i]),
                                                     static_cast<std::int32_t>(c[i])));
    out[2 * count + i] = dp4a(a[i], b[i], c[i]);
    out[3 * count + i] = funnel_shift_left(a[i], b[i], c[i]);
    out[4 * count + i] = funnel_shift_right(a[i], b[i], c[i]);
    out[5 * count + i] = static_cast<std::uint32_t>(popc(a[i]));
    out[6 * count + i] = static_cast<std::uint32_t>(clz(a[i]));
    out[7 * count + i] = static_cast<std::uint32_t>(ctz(a[i]));
    out[8 * count + i] = brev(a[i]);
  }
}

RUNGS_KERNEL(64)
narrow_kernel(const float* low, const float* high, std::uint32_t* out, unsigned count) {
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
    out[i] = cvt_bf16x2(low[i], high[i]);
    out[count + i] = cvt_f16x2(low[i], high[i]);
    out[2 * count + i] = cvt_f8e4m3x2(low[i], high[i]);
    out[3 * count + i] = cvt_f8e5m2x2(low[i], high[i]);
    out[4 * count + i] = cvt_tf32(low[i]);
  }
}

RUNGS_KERNEL(64) widen_kernel(std::uint32_t* out) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < 65536; i += gridDim.x * blockDim.x) {
    out[i] = cvt_f16x2_f8e4m3x2(static_cast<std::uint16_t>(i));
    out[65536 + i] = cvt_f16x2_f8e5m2x2(static_cast<std::uint16_t>(i));
  }
}

RUNGS_KERNEL(64) approximate_kernel(const float* in, float* out, unsigned count) {
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
    out[i] = ex2_approx(in[i]);
    out[count + i] = rcp_approx(in[i]);
    out[2 * count + i] = tanh_approx(in[i]);
  }
}

constexpr unsigned kThreads = 64;

}  // namespace

void launch_redux(StreamHandle stream, const std::uint32_t* in, std::uint32_t* out) {
  gpu::launch("redux", {.grid = {1}, .block = {kThreads}}, stream, redux_kernel, in, out);
}
void launch_match(StreamHandle stream, const std::uint32_t* in, std::uint32_t* out) {
  gpu::launch("match", {.grid = {1}, .block = {kThreads}}, stream, match_kernel, in, out);
}
void launch_lanes(StreamHandle stream, std::uint32_t* out) {
  gpu::launch("lanes", {.grid = {1}, .block = {kThreads}}, stream, lanes_kernel, out);
}
void launch_segments(StreamHandle stream, std::uint32_t* out) {
  gpu::launch("segments", {.grid = {1}, .block = {kThreads}}, stream, segments_kernel, out);
}
void launch_integers(StreamHandle stream, const std::uint32_t* a, const std::uint32_t* b,
                     const std::uint32_t* c, std::uint32_t* out, unsigned count) {
  gpu::launch("integers", {.grid = {1}, .block = {kThreads}}, stream, integers_kernel, a, b, c, out,
              count);
}
void launch_narrow(StreamHandle stream, const float* low, const float* high, std::uint32_t* out,
                   unsigned count) {
  gpu::launch("narrow", {.grid = {1}, .block = {kThreads}}, stream, narrow_kernel, low, high, out,
              count);
}
void launch_widen(StreamHandle stream, std::uint32_t* out) {
  gpu::launch("widen", {.grid = {8}, .block = {kThreads}}, stream, widen_kernel, out);
}
void launch_approximate(StreamHandle stream, const float* in, float* out, unsigned count) {
  gpu::launch("approximate", {.grid = {1}, .block = {kThreads}}, stream, approximate_kernel, in,
              out, count);
}

}  // namespace rungs::ptx::test

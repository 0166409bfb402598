#pragma once
/// @file cublas_peer.hpp
/// cuBLAS on the same operands: the peer that the ladder is measured against.

#include <rungs/gemm/gemm.hpp>
#include <rungs/ladder/build.hpp>

namespace rungs::gemm {

/// cublasGemmEx with fp32 accumulation. Unavailable in emulated builds. Live counts are not
/// supported.
ladder::PeerRung<Args> cublas_peer();

}  // namespace rungs::gemm

#include "catalog/cublas_peer.hpp"

#include <rungs/config.hpp>

#include <memory>
#include <string>

#if RUNGS_GPU_CUDA

#include <rungs/core/error.hpp>
#include <rungs/gpu/buffer.hpp>

#include <cublas_v2.h>

#include <cstddef>
#include <cstdint>

namespace rungs::gemm {
namespace {

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    RUNGS_THROW(kCuda, call, ": ", cublasGetStatusString(status));
}

/// What NVIDIA recommends for Hopper (cuBLAS documentation, cublasSetWorkspace): without one of its
/// own, a captured product would allocate.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

/// Row-major C = A·Bᵀ is column-major Cᵀ = B·Aᵀ: cuBLAS gets b as its first matrix and a as its
/// second.
class Cublas final : public ladder::Prepared {
 public:
  Cublas(const Args& args, const gpu::Device& device)
      : args_(args),
        workspace_(device, kWorkspaceBytes) {
    RUNGS_REQUIRE(args.valid_rows == nullptr && args.valid_depth == nullptr,
                  "cublas: live counts have no counterpart there");
    device.make_current();
    check(cublasCreate(&handle_), "cublasCreate");
    check(cublasSetWorkspace(handle_, workspace_.data(), kWorkspaceBytes), "cublasSetWorkspace");
  }
  ~Cublas() override { cublasDestroy(handle_); }
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  void operator()(gpu::StreamHandle stream) override {
    check(cublasSetStream(handle_, stream), "cublasSetStream");
    // cublasSetStream goes back to the default workspace.
    check(cublasSetWorkspace(handle_, workspace_.data(), kWorkspaceBytes), "cublasSetWorkspace");
    const bool b_k_major = args_.b.strides[1] == 1;
    const bool a_k_major = args_.a.strides[1] == 1;
    const auto as_int = [](std::int64_t value) { return static_cast<int>(value); };
    const float one = 1.0f;
    const cudaDataType c_type = args_.c.dtype == DType::kBf16 ? CUDA_R_16BF : CUDA_R_32F;
    check(cublasGemmEx(
              handle_, b_k_major ? CUBLAS_OP_T : CUBLAS_OP_N, a_k_major ? CUBLAS_OP_N : CUBLAS_OP_T,
              as_int(args_.c.shape[1]), as_int(args_.c.shape[0]), as_int(args_.a.shape[1]), &one,
              args_.b.data, CUDA_R_16BF, as_int(args_.b.strides[b_k_major ? 0 : 1]), args_.a.data,
              CUDA_R_16BF, as_int(args_.a.strides[a_k_major ? 0 : 1]), &args_.beta, args_.c.data,
              c_type, as_int(args_.c.strides[0]), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
          "cublasGemmEx");
  }

 private:
  Args args_;
  gpu::Buffer<std::byte> workspace_;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace

ladder::PeerRung<Args> cublas_peer() {
  ladder::PeerRung<Args> peer;
  peer.name = "cublas";
  peer.unavailable = [](const ladder::Machine&) { return std::string(); };
  peer.prepare = [](const Args& args,
                    const ladder::Machine& machine) -> std::unique_ptr<ladder::Prepared> {
    return std::make_unique<Cublas>(args, *machine.device);
  };
  return peer;
}

}  // namespace rungs::gemm

#else

namespace rungs::gemm {

ladder::PeerRung<Args> cublas_peer() {
  ladder::PeerRung<Args> peer;
  peer.name = "cublas";
  peer.unavailable = [](const ladder::Machine&) {
    return std::string(
        "cuBLAS needs a CUDA build (preset cuda); this one runs kernels on the emulator");
  };
  peer.prepare = [](const Args&, const ladder::Machine&) -> std::unique_ptr<ladder::Prepared> {
    return nullptr;
  };
  return peer;
}

}  // namespace rungs::gemm

#endif

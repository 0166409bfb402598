// Breaks two rules on purpose: tests/layering/expect.cmake.
#include <cuda_runtime.h>
#include <rungs/gemm/gemm.hpp>

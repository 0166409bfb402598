# The layering check, run on a tree that breaks every rule once, must name each violation; and nothing else.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ${CMAKE_COMMAND} -DROOT=${ROOT}/tests/layering/violations
                        -P ${ROOT}/cmake/Layering.cmake
                RESULT_VARIABLE result ERROR_VARIABLE output OUTPUT_VARIABLE output)
if(NOT result)
  message(FATAL_ERROR "the check passed a tree that breaks every rule:\n${output}")
endif()
set(expected
  "core.hpp: common/core may not include <rungs/gpu/device.hpp>"
  "core.hpp: a public header may not include <fmt/format.h>"
  "core.hpp: public headers ask RUNGS_GPU_CUDA, never __CUDACC__"
  "core.cpp: common/ may not include a stage: <rungs/gemm/gemm.hpp>"
  "core.cpp: CUDA headers are included in common/gpu and common/ptx only, not <cuda_runtime.h>"
  "gemm.hpp: stage 7 may not include the higher stage 8: <rungs/attention/attention.hpp>"
  "gemm.hpp: a public header may not include the kernel-class header <rungs/gpu/kernel.hpp>"
  "gemm.cpp: only a stage's catalog, tests and bench may include <rungs/testing/oracle.hpp>"
  "gemm.cpp: a stage reaches the emulator only through rungs/gpu and rungs/ptx"
  "gemm.cpp: reaches into another folder with \"../../08_flash_attention/src/x.hpp\""
  "gemm.cpp: public headers are included as <rungs/gemm/gemm.hpp>"
  "gemm.cpp: includes the source file kernel.cu"
  "gemm.cpp: <rungs/nothing/x.hpp> belongs to no component"
  "kernel.cu: kernels use rungs/gpu/kernel.hpp and rungs/ptx instead of")
foreach(line IN LISTS expected)
  string(FIND "${output}" "${line}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "not reported: ${line}\nThe check said:\n${output}")
  endif()
endforeach()
list(LENGTH expected count)
if(NOT output MATCHES "layering: ${count} violations")
  message(FATAL_ERROR "expected ${count} violations:\n${output}")
endif()
message(STATUS "${count} violations, each reported")

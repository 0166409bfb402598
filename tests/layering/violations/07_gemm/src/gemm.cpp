// Breaks six rules on purpose: tests/layering/expect.cmake.
#include "../../08_flash_attention/src/x.hpp"
#include "kernel.cu"
#include "rungs/gemm/gemm.hpp"

#include <rungs/emulator/device.hpp>
#include <rungs/nothing/x.hpp>
#include <rungs/testing/oracle.hpp>

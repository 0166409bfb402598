#pragma once
// Breaks two rules on purpose: tests/layering/expect.cmake.
#include <rungs/attention/attention.hpp>
#include <rungs/core/core.hpp>
#include <rungs/gpu/kernel.hpp>

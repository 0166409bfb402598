#pragma once
/// @file report.hpp
/// Texts of failed launches.

#include <rungs/emulator/model.hpp>

#include <cstdint>

namespace rungs::emulator {

struct Block;
struct Cluster;

/// Ends the running CUDA thread's launch with a report: what happened, where, and what to look for.
[[noreturn]] __attribute__((format(printf, 3, 4))) void fail(Location where, const char* hint,
                                                             const char* format, ...);
/// The same from an asynchronous operation that `block` issued at `where`, or at a block's end.
__attribute__((format(printf, 4, 5))) void fail_async(Block& block, Location where,
                                                      const char* hint, const char* format, ...);
/// Every live thread of the cluster waits and nothing can wake it.
void report_deadlock(Cluster& cluster, const char* title, const char* hint);

}  // namespace rungs::emulator

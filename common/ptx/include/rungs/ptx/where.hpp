#pragma once
/// @file where.hpp
/// How the wrappers of this folder are written; kernel sources include sync.hpp, tma.hpp, ...
/// instead.
///
/// A wrapper is one instruction with two bodies: inline PTX in a CUDA build, a call of the
/// emulator's model otherwise. The emulated one has a hidden last parameter, the place of the call,
/// so that a report can name the line of kernel source. `RUNGS_WHERE` stands for it in an empty
/// parameter list, `RUNGS_AND_WHERE` after others; `RUNGS_PASS_WHERE` hands it on after the
/// arguments of a call.
///
/// Sections are those of the PTX ISA 9.0. "Aligned" means that all threads of the warp execute the
/// same instruction together: after code that only some lanes ran, put syncwarp() first.

#include <rungs/gpu/kernel.hpp>

#include <cstdint>

#if RUNGS_GPU_CUDA
#define RUNGS_WHERE
#define RUNGS_AND_WHERE
#define RUNGS_PASS_WHERE
#else
#include <rungs/emulator/model.hpp>
#define RUNGS_WHERE ::rungs::emulator::Location where = {__builtin_FILE(), __builtin_LINE()}
#define RUNGS_AND_WHERE , RUNGS_WHERE
#define RUNGS_PASS_WHERE , where
#endif

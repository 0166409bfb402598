// ldmatrix and stmatrix: 8x8 matrices of 16-bit elements between shared memory and a warp's
// registers.

#include <rungs/emulator/model_warp.hpp>

#include "gathering.hpp"
#include "report.hpp"
#include "sanitizer.hpp"
#include "trace_hooks.hpp"
#include "worker.hpp"

#include <cstring>

namespace rungs::emulator {
namespace {

constexpr std::uint32_t kOffsetMask = 0xffffff;
constexpr std::uint32_t kRowBytes = 16;
constexpr const char* kHint =
    "row r of matrix i by lane 8 i + r, at a multiple of 16 bytes in the block's shared memory";

// What a lane brings.
struct Lane {
  std::uint32_t* registers;  // count of them; stmatrix only reads them
  std::byte* row;            // null: its address is not used
};

const char* const kLoads[2][3] = {{"ldmatrix.x1", "ldmatrix.x2", "ldmatrix.x4"},
                                  {"ldmatrix.x1.trans", "ldmatrix.x2.trans", "ldmatrix.x4.trans"}};
const char* const kStores[2][3] = {{"stmatrix.x1", "stmatrix.x2", "stmatrix.x4"},
                                   {"stmatrix.x1.trans", "stmatrix.x2.trans", "stmatrix.x4.trans"}};

using Matrix = std::uint16_t[8][8];

const Lane& lane_of(const Gathering& gathering, unsigned lane) {
  return *static_cast<const Lane*>(gathering.operands[lane]);
}

// Lane l holds the elements (l / 4, 2 (l % 4)) and the next in the row; transposed: the elements
// (2 (l % 4), l / 4) and the next in the column.
template <bool kTranspose>
std::uint16_t& element(Matrix& matrix, unsigned lane, unsigned half) {
  const unsigned along = 2 * (lane % 4) + half, across = lane / 4;
  return kTranspose ? matrix[along][across] : matrix[across][along];
}

template <int kCount, bool kTranspose>
void load(const Gathering& gathering, Location) {
  for (unsigned i = 0; i < kCount; i++) {
    Matrix matrix;
    for (unsigned r = 0; r < 8; r++)
      std::memcpy(matrix[r], lane_of(gathering, 8 * i + r).row, kRowBytes);
    for (unsigned lane = 0; lane < 32; lane++) {
      lane_of(gathering, lane).registers[i] =
          element<kTranspose>(matrix, lane, 0) | std::uint32_t{element<kTranspose>(matrix, lane, 1)}
                                                     << 16;
    }
  }
}

template <int kCount, bool kTranspose>
void store(const Gathering& gathering, Location) {
  for (unsigned i = 0; i < kCount; i++) {
    Matrix matrix;
    for (unsigned lane = 0; lane < 32; lane++) {
      const std::uint32_t pair = lane_of(gathering, lane).registers[i];
      element<kTranspose>(matrix, lane, 0) = static_cast<std::uint16_t>(pair);
      element<kTranspose>(matrix, lane, 1) = static_cast<std::uint16_t>(pair >> 16);
    }
    for (unsigned r = 0; r < 8; r++)
      std::memcpy(lane_of(gathering, 8 * i + r).row, matrix[r], kRowBytes);
  }
}

// The row at the lane's address, checked; null if the instruction does not use it. For TSan the
// access is the lane's own.
std::byte* row_of(const void* address, int count, const char* name, bool write, Location where) {
  const Thread& self = this_thread();
  Block& block = self.home();
  const unsigned lane = self.index() % 32;
  if (lane >= 8u * static_cast<unsigned>(count)) return nullptr;
  const std::uint32_t offset = model::shared_address(address, where) & kOffsetMask;
  if (offset % kRowBytes != 0) {
    fail(where, kHint,
         "%s: row %u of matrix %u, from lane %u, at shared-memory offset %u is not 16-byte aligned",
         name, lane % 8, lane / 8, lane, offset);
  }
  check_shared_access(block, offset, kRowBytes, name, write, where);
  trace::shared_access(name, offset, kRowBytes, where);
  std::byte* row = block.shared.at(offset);
  sanitizer::access(row, kRowBytes, write);
  return row;
}

int size_index(int count) { return count == 4 ? 2 : count - 1; }

}  // namespace

namespace model {

void ldmatrix(std::uint32_t* d, int count, bool transpose, const void* row, Location where) {
  const sanitizer::Mute mute;
  constexpr Complete kComplete[2][3] = {{load<1, false>, load<2, false>, load<4, false>},
                                        {load<1, true>, load<2, true>, load<4, true>}};
  const int size = size_index(count);
  const char* name = kLoads[transpose ? 1 : 0][size];
  Lane lane{d, row_of(row, count, name, false, where)};
  gather_aligned(name, &lane, kComplete[transpose ? 1 : 0][size], where);
}

void stmatrix(void* row, const std::uint32_t* values, int count, bool transpose, Location where) {
  const sanitizer::Mute mute;
  constexpr Complete kComplete[2][3] = {{store<1, false>, store<2, false>, store<4, false>},
                                        {store<1, true>, store<2, true>, store<4, true>}};
  const int size = size_index(count);
  const char* name = kStores[transpose ? 1 : 0][size];
  Lane lane{const_cast<std::uint32_t*>(values), row_of(row, count, name, true, where)};
  gather_aligned(name, &lane, kComplete[transpose ? 1 : 0][size], where);
}

}  // namespace model
}  // namespace rungs::emulator

#include "detail/call.hpp"

#include <rungs/core/error.hpp>

#include "detail/reduces.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

namespace rungs::collectives::detail {
namespace {

/// Which dtypes and operators the table has for a collective: "f32 with sum, max, avg; i32 ...".
std::string supported(Collective what, KernelTable table) {
  std::vector<DType> dtypes;
  for (const KernelEntry& entry : table) {
    const bool known = std::find(dtypes.begin(), dtypes.end(), entry.dtype) != dtypes.end();
    if (entry.what == what && !known) dtypes.push_back(entry.dtype);
  }
  std::string text;
  for (const DType dtype : dtypes) {
    std::vector<Op> ops;
    for (const KernelEntry& entry : table) {
      const bool known = std::find(ops.begin(), ops.end(), entry.op) != ops.end();
      if (entry.what == what && entry.dtype == dtype && !known) ops.push_back(entry.op);
    }
    text += concat(text.empty() ? "" : "; ", to_string(dtype), " with");
    for (const Op op : ops) text += concat(op == ops.front() ? " " : ", ", to_string(op));
  }
  return text.empty() ? "nothing" : text;
}

struct Bytes {
  std::uintptr_t begin;
  std::size_t size;
};

bool overlap(const Bytes& a, const Bytes& b) {
  return a.size > 0 && b.size > 0 && a.begin < b.begin + b.size && b.begin < a.begin + a.size;
}

// Where the one buffer must begin inside the other to be "in place"; null: never.
const void* in_place_of(const Call& call, std::size_t part_bytes, int rank, bool* of_send) {
  const std::size_t offset = static_cast<std::size_t>(rank) * part_bytes;
  *of_send = false;
  switch (call.what) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
      return call.recv;
    case Collective::kAllGather:
      return static_cast<const std::byte*>(call.recv) + offset;
    case Collective::kReduceScatter:
      *of_send = true;
      return static_cast<const std::byte*>(call.send) + offset;
    case Collective::kAllToAll:
      break;
  }
  return nullptr;
}

void check_pointer(const char* collective, const char* name, const void* pointer, DType dtype) {
  RUNGS_REQUIRE(pointer != nullptr, collective, ": ", name, " is null");
  RUNGS_REQUIRE(reinterpret_cast<std::uintptr_t>(pointer) % size_bytes(dtype) == 0, collective,
                ": ", name, " = ", pointer, " is not aligned to the ", size_bytes(dtype),
                " bytes of ", to_string(dtype));
}

}  // namespace

std::size_t total_bytes(const Call& call, int size) {
  return call.count * size_bytes(call.dtype) *
         (has_parts(call.what) ? static_cast<std::size_t>(size) : 1);
}

void check_call(const Call& call, int rank, int size, KernelTable table) {
  const char* const name = to_string(call.what);
  const std::size_t element = size_bytes(call.dtype);
  RUNGS_REQUIRE(element > 0, name, ": dtype ", static_cast<int>(call.dtype),
                " is outside the enumeration");
  const Question question{call.what, call.dtype, call.op, 0, {}};
  if (std::none_of(table.begin(), table.end(),
                   [&](const KernelEntry& entry) { return serves(entry, question); })) {
    RUNGS_THROW(kUnsupported, name, ": no kernel for ", to_string(call.dtype), " with ",
                to_string(call.op), "; there are ", supported(call.what, table));
  }
  RUNGS_REQUIRE(call.root >= 0 && call.root < size, name, ": root = ", call.root,
                "; ranks are 0 to ", size - 1);
  const std::size_t parts = has_parts(call.what) ? static_cast<std::size_t>(size) : 1;
  constexpr std::size_t kMost = std::numeric_limits<std::int64_t>::max();
  RUNGS_REQUIRE(call.count <= kMost / element / parts, name, ": count = ", call.count, " of ",
                to_string(call.dtype), " for ", size, " ranks overflows");
  if (call.count == 0) return;

  const bool reads = call.what != Collective::kBroadcast || rank == call.root;
  if (reads) check_pointer(name, "send", call.send, call.dtype);
  check_pointer(name, "recv", call.recv, call.dtype);
  if (!reads) return;

  const std::size_t part_bytes = call.count * element;
  const bool gathers = call.what == Collective::kAllGather;
  const bool scatters = call.what == Collective::kReduceScatter;
  const Bytes send{reinterpret_cast<std::uintptr_t>(call.send), part_bytes * (gathers ? 1 : parts)};
  const Bytes recv{reinterpret_cast<std::uintptr_t>(call.recv),
                   part_bytes * (scatters ? 1 : parts)};
  if (!overlap(send, recv)) return;
  bool of_send = false;
  const void* const place = in_place_of(call, part_bytes, rank, &of_send);
  const void* const other = of_send ? call.recv : call.send;
  RUNGS_REQUIRE(place != nullptr && place == other, name, ": send (", call.send, ", ", send.size,
                " bytes) and recv (", call.recv, ", ", recv.size,
                " bytes) overlap; allowed on rank ", rank, ": ",
                call.what == Collective::kAllToAll ? "never"
                : gathers                          ? "send == recv + rank * count"
                : scatters                         ? "recv == send + rank * count"
                                                   : "send == recv");
}

}  // namespace rungs::collectives::detail

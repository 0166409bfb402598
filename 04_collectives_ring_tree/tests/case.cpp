#include "case.hpp"

#include <rungs/core/error.hpp>
#include <rungs/testing/compare.hpp>

#include <cmath>
#include <cstring>
#include <span>

namespace rungs::collectives {
namespace {

constexpr std::size_t kGuardBytes = 256;

bool reduces(Collective what) {
  return what == Collective::kAllReduce || what == Collective::kReduceScatter;
}

// Parts of `count` elements in the send and the receive buffer.
std::size_t send_parts(const Case& c, int ranks) {
  const bool all = c.what == Collective::kReduceScatter || c.what == Collective::kAllToAll;
  return all ? static_cast<std::size_t>(ranks) : 1;
}
std::size_t recv_parts(const Case& c, int ranks) {
  const bool all = c.what == Collective::kAllGather || c.what == Collective::kAllToAll;
  return all ? static_cast<std::size_t>(ranks) : 1;
}

std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  return x ^ x >> 33;
}

// The reduction of one element over all ranks, as the documentation defines it.
double reduced(const Case& c, std::size_t index, int ranks, double* magnitude) {
  double sum = 0;
  double largest = -HUGE_VAL;
  *magnitude = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const double value = value_of(c, rank, index);
    sum += value;
    largest = std::fmax(largest, value);
    *magnitude += std::abs(value);
  }
  if (c.op == Op::kMax) return largest;
  if (c.dtype == DType::kI32) {
    // Up to 64 values of 31 bits are exact in a double. Wrap around as 32 bits do.
    const auto wrapped = static_cast<std::int32_t>(
        static_cast<std::uint32_t>(static_cast<std::int64_t>(sum) & 0xffffffffll));
    return c.op == Op::kAvg ? std::trunc(static_cast<double>(wrapped) / ranks) : wrapped;
  }
  return c.op == Op::kAvg ? sum / ranks : sum;
}

// The chapter's bound: ranks - 1 additions round once each, an average's division once more.
double rounding_bound(const Case& c, int ranks, double magnitude, double exact) {
  if (c.dtype == DType::kI32 || c.op == Op::kMax || ranks == 1) return 0;
  const double unit = c.dtype == DType::kBf16 ? 0x1p-8 : 0x1p-24;
  if (c.integers) return c.op == Op::kAvg ? unit * std::abs(exact) : 0;
  const double roundings = ranks - 1 + (c.op == Op::kAvg ? 1 : 0);
  const double bound = roundings * unit / (1 - roundings * unit) * magnitude;
  return c.op == Op::kAvg ? bound / ranks : bound;
}

std::vector<std::byte> download(const std::byte* from, std::size_t size, Rank& rank) {
  std::vector<std::byte> bytes(size);
  if (size > 0) gpu::copy_async(bytes.data(), from, size, rank.stream);
  rank.stream.synchronize();
  return bytes;
}

}  // namespace

std::string to_string(const Case& c) {
  return concat(to_string(c.what), " ", to_string(c.dtype),
                reduces(c.what) ? concat(" ", to_string(c.op)) : "", " count ", c.count,
                c.what == Collective::kBroadcast ? concat(" root ", c.root) : "",
                c.in_place ? " in place" : "", c.shift > 0 ? concat(" shifted by ", c.shift) : "",
                c.integers ? " integers" : "");
}

double value_of(const Case& c, int rank, std::size_t index) {
  const std::uint64_t bits = mix(c.seed * 1000003 + static_cast<std::uint64_t>(rank) * 7919 +
                                 mix(index + 0x9e3779b97f4a7c15ull));
  if (c.integers) return static_cast<double>(static_cast<std::int64_t>(bits % 17) - 8);
  if (c.dtype == DType::kI32)
    return static_cast<double>(static_cast<std::int32_t>(static_cast<std::uint32_t>(bits)));
  const auto value = static_cast<float>(static_cast<double>(bits >> 11) * 0x1p-52 - 1);
  return c.dtype == DType::kBf16 ? static_cast<double>(to_float(to_bf16(value)))
                                 : static_cast<double>(value);
}

Expected expected(const Case& c, int rank, int ranks) {
  Expected result;
  const auto me = static_cast<std::size_t>(rank);
  for (std::size_t part = 0; part < recv_parts(c, ranks); ++part) {
    for (std::size_t i = 0; i < c.count; ++i) {
      double bound = 0;
      double value = 0;
      double magnitude = 0;
      switch (c.what) {
        case Collective::kAllReduce:
          value = reduced(c, i, ranks, &magnitude);
          bound = rounding_bound(c, ranks, magnitude, value);
          break;
        case Collective::kReduceScatter:
          value = reduced(c, me * c.count + i, ranks, &magnitude);
          bound = rounding_bound(c, ranks, magnitude, value);
          break;
        case Collective::kAllGather:
          value = value_of(c, static_cast<int>(part), i);
          break;
        case Collective::kBroadcast:
          value = value_of(c, c.root, i);
          break;
        case Collective::kAllToAll:
          value = value_of(c, static_cast<int>(part), me * c.count + i);
          break;
      }
      result.values.push_back(value);
      result.bounds.push_back(bound);
    }
  }
  return result;
}

std::vector<std::byte> encode(DType dtype, const std::vector<double>& values) {
  const std::size_t element = size_bytes(dtype);
  std::vector<std::byte> bytes(values.size() * element);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::byte* const to = bytes.data() + i * element;
    if (dtype == DType::kF32) {
      const auto value = static_cast<float>(values[i]);
      std::memcpy(to, &value, element);
    } else if (dtype == DType::kBf16) {
      const bf16 value = to_bf16(static_cast<float>(values[i]));
      std::memcpy(to, &value, element);
    } else {
      const auto value = static_cast<std::int32_t>(values[i]);
      std::memcpy(to, &value, element);
    }
  }
  return bytes;
}

std::vector<double> decode(DType dtype, const std::vector<std::byte>& bytes) {
  const std::size_t element = size_bytes(dtype);
  std::vector<double> values;
  for (std::size_t at = 0; at + element <= bytes.size(); at += element) {
    if (dtype == DType::kF32) {
      float value;
      std::memcpy(&value, bytes.data() + at, element);
      values.push_back(value);
    } else if (dtype == DType::kBf16) {
      bf16 value;
      std::memcpy(&value, bytes.data() + at, element);
      values.push_back(to_float(value));
    } else {
      std::int32_t value;
      std::memcpy(&value, bytes.data() + at, element);
      values.push_back(value);
    }
  }
  return values;
}

Operands prepare(Rank& rank, const Case& c) {
  const int ranks = rank.group.size();
  const std::size_t element = size_bytes(c.dtype);
  const std::size_t part_bytes = c.count * element;
  const std::size_t offset = kGuardBytes + c.shift * element;
  const std::size_t send_bytes = send_parts(c, ranks) * part_bytes;
  const std::size_t recv_bytes = recv_parts(c, ranks) * part_bytes;
  RUNGS_REQUIRE(offset + std::max(send_bytes, recv_bytes) + kGuardBytes <= rank.send.size(),
                to_string(c), " does not fit the test's buffers");
  gpu::fill_async(rank.send.data(), 0xff, rank.send.size(), rank.stream);
  gpu::fill_async(rank.recv.data(), 0xff, rank.recv.size(), rank.stream);

  Operands operands{rank.send.data() + offset, rank.recv.data() + offset};
  const std::size_t own = static_cast<std::size_t>(rank.group.rank()) * part_bytes;
  if (c.in_place && c.what == Collective::kAllGather) {
    operands.send = operands.recv + own;
  } else if (c.in_place && c.what == Collective::kReduceScatter) {
    operands.recv = operands.send + own;
  } else if (c.in_place) {
    operands.send = operands.recv;
  }
  if (c.what == Collective::kBroadcast && rank.group.rank() != c.root) return operands;
  std::vector<double> values;
  for (std::size_t i = 0; i < send_parts(c, ranks) * c.count; ++i)
    values.push_back(value_of(c, rank.group.rank(), i));
  const std::vector<std::byte> bytes = encode(c.dtype, values);
  if (!bytes.empty()) gpu::copy_async(operands.send, bytes.data(), bytes.size(), rank.stream);
  rank.stream.synchronize();
  return operands;
}

void enqueue(Rank& rank, const Case& c, const Operands& operands) {
  Communicator& communicator = rank.communicator;
  switch (c.what) {
    case Collective::kAllReduce:
      return communicator.all_reduce(operands.send, operands.recv, c.count, c.dtype, c.op,
                                     rank.stream);
    case Collective::kAllGather:
      return communicator.all_gather(operands.send, operands.recv, c.count, c.dtype, rank.stream);
    case Collective::kReduceScatter:
      return communicator.reduce_scatter(operands.send, operands.recv, c.count, c.dtype, c.op,
                                         rank.stream);
    case Collective::kBroadcast:
      return communicator.broadcast(operands.send, operands.recv, c.count, c.dtype, c.root,
                                    rank.stream);
    case Collective::kAllToAll:
      return communicator.all_to_all(operands.send, operands.recv, c.count, c.dtype, rank.stream);
  }
}

void compare(Rank& rank, const Case& c, const Operands& operands) {
  const int ranks = rank.group.size();
  const std::size_t size = recv_parts(c, ranks) * c.count * size_bytes(c.dtype);
  const std::vector<std::byte> got =
      download(operands.recv - kGuardBytes, size + 2 * kGuardBytes, rank);
  const auto first = got.begin() + kGuardBytes;
  const auto last = first + static_cast<std::ptrdiff_t>(size);
  const Expected want = expected(c, rank.group.rank(), ranks);
  const std::string wrong =
      testing::first_outside_bounds(decode(c.dtype, {first, last}), want.values, want.bounds);
  if (!wrong.empty()) rank.note(concat(to_string(c), ": ", wrong));

  const bool shares_send = c.in_place && c.what == Collective::kReduceScatter;
  if (!shares_send) {
    for (std::size_t i = 0; i < kGuardBytes; ++i) {
      if (got[i] == std::byte{0xff} && *(last + static_cast<std::ptrdiff_t>(i)) == std::byte{0xff})
        continue;
      rank.note(concat(to_string(c), ": memory beside the output was written"));
      break;
    }
  }
  if (c.what != Collective::kAllReduce) return;
  std::uint64_t hash = 14695981039346656037ull;
  for (auto at = first; at != last; ++at)
    hash = (hash ^ static_cast<std::uint64_t>(*at)) * 1099511628211ull;
  for (const std::uint64_t other : rank.group.all_gather(hash)) {
    if (other == hash) continue;
    rank.note(concat(to_string(c), ": ranks got different bits"));
    break;
  }
}

void run_case(Rank& rank, const Case& c) {
  const Operands operands = prepare(rank, c);
  enqueue(rank, c, operands);
  rank.communicator.synchronize(rank.stream);
  compare(rank, c, operands);
}

}  // namespace rungs::collectives

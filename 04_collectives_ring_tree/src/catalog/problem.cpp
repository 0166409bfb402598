#include "catalog/problem.hpp"

#include <rungs/core/error.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/testing/random.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace rungs::collectives {
namespace {

constexpr auto kRanks = static_cast<std::size_t>(kCatalogRanks);

bool sends_all_parts(Collective what) {
  return what == Collective::kReduceScatter || what == Collective::kAllToAll;
}
bool receives_all_parts(Collective what) {
  return what == Collective::kAllGather || what == Collective::kAllToAll;
}

std::vector<float> values(DType dtype, std::size_t count, std::uint64_t seed) {
  if (dtype == DType::kF32) return testing::uniform_f32(count, seed);
  if (dtype == DType::kBf16) return testing::to_float(testing::uniform_bf16(count, seed));
  std::vector<float> result;
  for (const std::int32_t value : testing::integers(count, seed, -1000, 1000))
    result.push_back(static_cast<float>(value));
  return result;
}

std::vector<std::byte> encode(DType dtype, const std::vector<float>& from) {
  std::vector<std::byte> bytes(from.size() * size_bytes(dtype));
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::byte* const to = bytes.data() + i * size_bytes(dtype);
    const bf16 narrow = to_bf16(from[i]);
    const auto whole = static_cast<std::int32_t>(from[i]);
    if (dtype == DType::kF32) std::memcpy(to, &from[i], sizeof(float));
    if (dtype == DType::kBf16) std::memcpy(to, &narrow, sizeof(narrow));
    if (dtype == DType::kI32) std::memcpy(to, &whole, sizeof(whole));
  }
  return bytes;
}

void append(DType dtype, const std::vector<std::byte>& bytes, std::vector<float>& to) {
  for (std::size_t at = 0; at < bytes.size(); at += size_bytes(dtype)) {
    float value = 0;
    bf16 narrow{};
    std::int32_t whole = 0;
    if (dtype == DType::kF32) {
      std::memcpy(&value, bytes.data() + at, sizeof(value));
    } else if (dtype == DType::kBf16) {
      std::memcpy(&narrow, bytes.data() + at, sizeof(narrow));
      value = to_float(narrow);
    } else {
      std::memcpy(&whole, bytes.data() + at, sizeof(whole));
      value = static_cast<float>(whole);
    }
    to.push_back(value);
  }
}

}  // namespace

CollectiveProblem::CollectiveProblem(const CollectiveShape& shape, std::uint64_t seed)
    : shape_(shape) {
  const std::size_t sent = shape.count * (sends_all_parts(shape.what) ? kRanks : 1);
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    devices_.push_back(gpu::Device::open(static_cast<int>(rank) % gpu::Device::count()));
    const gpu::Stream stream(devices_.back());
    inputs_.push_back(values(shape.dtype, sent, seed * kRanks + rank));
    send_.emplace_back(devices_.back(), sent * size_bytes(shape.dtype));
    send_.back().upload(encode(shape.dtype, inputs_.back()), stream);
    recv_.emplace_back(devices_.back(), received() * size_bytes(shape.dtype));
  }
}

std::size_t CollectiveProblem::received() const {
  return shape_.count * (receives_all_parts(shape_.what) ? kRanks : 1);
}

CollectiveArgs CollectiveProblem::args() {
  CollectiveArgs args{shape_, devices_, {}, {}};
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    args.send.push_back(send_[rank].data());
    args.recv.push_back(recv_[rank].data());
  }
  return args;
}

void CollectiveProblem::reset() {
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    const gpu::Stream stream(devices_[rank]);
    gpu::fill_async(recv_[rank].data(), 0xff, recv_[rank].size(), stream);
    stream.synchronize();
  }
}

std::vector<float> CollectiveProblem::output() {
  std::vector<float> all;
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    const gpu::Stream stream(devices_[rank]);
    append(shape_.dtype, recv_[rank].download(stream), all);
  }
  return all;
}

double CollectiveProblem::exact(int rank, std::size_t element, double* magnitude) const {
  const auto me = static_cast<std::size_t>(rank);
  const std::size_t part = element / shape_.count;
  const std::size_t inside = element % shape_.count;
  *magnitude = 0;
  switch (shape_.what) {
    case Collective::kAllGather:
      return inputs_[part][inside];
    case Collective::kBroadcast:
      return inputs_[static_cast<std::size_t>(shape_.root)][element];
    case Collective::kAllToAll:
      return inputs_[part][me * shape_.count + inside];
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
      break;
  }
  const std::size_t at =
      shape_.what == Collective::kAllReduce ? element : me * shape_.count + element;
  double sum = 0;
  double largest = inputs_[0][at];
  for (const std::vector<float>& input : inputs_) {
    sum += input[at];
    largest = std::max(largest, static_cast<double>(input[at]));
    *magnitude += std::abs(static_cast<double>(input[at]));
  }
  if (shape_.op == Op::kMax) return largest;
  if (shape_.op != Op::kAvg) return sum;
  const double average = sum / kCatalogRanks;
  return shape_.dtype == DType::kI32 ? std::trunc(average) : average;
}

ladder::Reference CollectiveProblem::reference() {
  ladder::Reference reference;
  double unused = 0;
  for (int rank = 0; rank < kCatalogRanks; ++rank) {
    for (std::size_t i = 0; i < received(); ++i)
      reference.values.push_back(exact(rank, i, &unused));
  }
  return reference;
}

// The chapter derives it ("How wrong it may be").
double CollectiveProblem::bound(std::size_t element) {
  double magnitude = 0;
  static_cast<void>(
      exact(static_cast<int>(element / received()), element % received(), &magnitude));
  if (shape_.dtype == DType::kI32 || shape_.op == Op::kMax) return 0;
  const double unit = shape_.dtype == DType::kBf16 ? 0x1p-8 : 0x1p-24;
  const double roundings = kCatalogRanks - 1 + (shape_.op == Op::kAvg ? 1 : 0);
  const double sum = roundings * unit / (1 - roundings * unit) * magnitude;
  return shape_.op == Op::kAvg ? sum / kCatalogRanks : sum;
}

std::string CollectiveProblem::describe(std::size_t element) {
  return concat("rank ", element / received(), ", element ", element % received());
}

}  // namespace rungs::collectives

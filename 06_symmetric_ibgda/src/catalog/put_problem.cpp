#include "catalog/put_problem.hpp"

#include <rungs/core/error.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/testing/random.hpp>

namespace rungs::symmetric {

PutProblem::PutProblem(const PutShape& shape, std::uint64_t seed) : shape_(shape) {
  testing::Random random(seed);
  sent_.reserve(total());
  for (std::size_t i = 0; i < total(); ++i)
    sent_.push_back(static_cast<std::uint8_t>(random.below(256)));
  for (int rank = 0; rank < kPutRanks; ++rank) {
    devices_.push_back(gpu::Device::open(rank % gpu::Device::count()));
    recv_.emplace_back(devices_.back(), total());
  }
  const gpu::Stream stream(devices_.front());
  send_ = gpu::Buffer<std::uint8_t>(devices_.front(), total());
  send_.upload(sent_, stream);
}

PutArgs PutProblem::args() {
  PutArgs args{shape_, devices_, send_.data(), {}};
  for (const gpu::Buffer<std::uint8_t>& buffer : recv_) args.recv.push_back(buffer.data());
  return args;
}

// Every byte is another one than the right one: no value of a byte is a NaN.
void PutProblem::reset() {
  std::vector<std::uint8_t> wrong;
  wrong.reserve(total());
  for (const std::uint8_t byte : sent_) wrong.push_back(static_cast<std::uint8_t>(~byte));
  for (std::size_t rank = 0; rank < recv_.size(); ++rank) {
    const gpu::Stream stream(devices_[rank]);
    recv_[rank].upload(wrong, stream);
  }
}

std::vector<float> PutProblem::output() {
  std::vector<float> all;
  all.reserve(total() * recv_.size());
  for (std::size_t rank = 0; rank < recv_.size(); ++rank) {
    const gpu::Stream stream(devices_[rank]);
    for (const std::uint8_t byte : recv_[rank].download(stream)) all.push_back(byte);
  }
  return all;
}

ladder::Reference PutProblem::reference() {
  ladder::Reference reference;
  reference.values.reserve(total() * recv_.size());
  for (std::size_t rank = 0; rank < recv_.size(); ++rank)
    reference.values.insert(reference.values.end(), sent_.begin(), sent_.end());
  return reference;
}

std::string PutProblem::describe(std::size_t element) {
  const std::size_t byte = element % total();
  return concat("rank ", element / total(), ", message ", byte / shape_.size_bytes, ", byte ",
                byte % shape_.size_bytes);
}

}  // namespace rungs::symmetric

#include "catalog/rank_layer.hpp"

#include <rungs/core/log.hpp>
#include <rungs/protocols/kernel_table.hpp>

#include <exception>
#include <span>

namespace rungs::moe {
namespace {

// Heap bytes that the context itself takes: its barrier's words.
constexpr std::size_t kOfTheContext = 4096;

// This rank's experts out of all.
template <class T>
std::span<const T> slice(const std::vector<T>& all, int rank, int ranks) {
  const std::size_t part = all.size() / static_cast<std::size_t>(ranks);
  return {all.data() + static_cast<std::size_t>(rank) * part, part};
}

template <class T>
gpu::Buffer<T> uploaded(const gpu::Device& device, gpu::StreamHandle stream,
                        std::span<const T> values) {
  gpu::Buffer<T> buffer(device, values.size());
  buffer.upload(values, stream);
  return buffer;
}

template <class T>
void poison(const gpu::Buffer<T>& buffer, gpu::StreamHandle stream) {
  if (buffer.size() > 0) gpu::fill_async(buffer.data(), 0xff, buffer.size_bytes(), stream);
}

}  // namespace

RankLayer::RankLayer(const MoeInputs& inputs, const bootstrap::UniqueId& id, int rank,
                     const RankOptions& options)
    : tokens_(inputs.spec.tokens[static_cast<std::size_t>(rank)]),
      device_(gpu::Device::open(rank % gpu::Device::count())),
      group_(id, rank, inputs.spec.ranks(), {.host_id = options.host_id}),
      stream_(device_) {
  const MoeCase& spec = inputs.spec;
  const auto me = static_cast<std::size_t>(rank);
  const int ranks = spec.ranks();
  residual_before_ = inputs.residual[me];
  x_ = uploaded<bf16>(device_, stream_, inputs.x[me]);
  router_ = uploaded<float>(device_, stream_, inputs.router);
  up_ = uploaded(device_, stream_, slice(inputs.up, rank, ranks));
  down_ = uploaded(device_, stream_, slice(inputs.down, rank, ranks));
  residual_ = uploaded<float>(device_, stream_, residual_before_);
  d_residual_ = uploaded<float>(device_, stream_, inputs.d_residual[me]);
  dx_ = gpu::Buffer<float>(device_, residual_before_.size());
  d_router_ = gpu::Buffer<float>(device_, inputs.router.size());
  d_up_ = gpu::Buffer<float>(device_, up_.size());
  d_down_ = gpu::Buffer<float>(device_, down_.size());
  balance_ = gpu::Buffer<float>(device_, static_cast<std::size_t>(spec.experts));
  args_ = {.shape = spec.shape(),
           .tokens = tokens_,
           .x = x_.data(),
           .router = router_.data(),
           .up = up_.data(),
           .down = down_.data(),
           .residual = residual_.data(),
           .balance = balance_.data(),
           .d_residual = d_residual_.data(),
           .dx = dx_.data(),
           .d_router = d_router_.data(),
           .d_up = d_up_.data(),
           .d_down = d_down_.data(),
           .aux_weight = spec.aux_weight,
           .capacity_factor = spec.factor()};
  if (options.exchange == Exchange::kCounted) {
    symmetric::ContextOptions context_options;
    context_options.heap_bytes = Layer::heap_bytes(spec.shape(), ranks) + kOfTheContext;
    context_options.network = options.network;
    context_options.timeout_seconds = options.timeout_seconds;
    context_.emplace(group_, device_, context_options);
  }
  if (options.exchange == Exchange::kPadded) {
    collectives::CommunicatorOptions communicator_options;
    communicator_options.timeout_seconds = options.timeout_seconds;
    communicator_.emplace(group_, device_, protocols::kernel_table(), protocols::tuner(),
                          communicator_options);
  }
  layer_.emplace(args_, options.exchange, device_, context_ ? &*context_ : nullptr,
                 communicator_ ? &*communicator_ : nullptr);
  if (context_) context_->seal();
  reset();
  barrier();
}

RankLayer::~RankLayer() {
  const bool failing = std::uncaught_exceptions() > 0;
  if (failing && context_) context_->abort("an exception ends the rank");
  if (failing && communicator_) communicator_->abort("an exception ends the rank");
  try {
    stream_.synchronize();
  } catch (const std::exception& error) {
    log::error("moe: while a rank leaves: ", error.what());
  }
}

void RankLayer::reset() {
  if (tokens_ > 0) residual_.upload(residual_before_, stream_);
  for (const auto* buffer : {&dx_, &d_router_, &d_up_, &d_down_, &balance_})
    poison(*buffer, stream_);
  stream_.synchronize();
}

void RankLayer::load(const gpu::Buffer<bf16>& x, const gpu::Buffer<float>& residual) const {
  if (tokens_ == 0) return;
  gpu::copy_async(x_.data(), x.data(), x_.size_bytes(), stream_);
  gpu::copy_async(residual_.data(), residual.data(), residual_.size_bytes(), stream_);
}

void RankLayer::synchronize() {
  if (context_) {
    context_->synchronize(stream_);
  } else if (communicator_) {
    communicator_->synchronize(stream_);
  } else {
    stream_.synchronize();
  }
}

std::optional<Error> RankLayer::async_error() const {
  if (context_) return context_->async_error();
  return std::nullopt;
}

template <class T>
std::vector<T> RankLayer::download(const T* data, std::size_t count) const {
  std::vector<T> values(count);
  if (count > 0) gpu::copy_async(values.data(), data, count * sizeof(T), stream_);
  gpu::synchronize(stream_);
  return values;
}

RankOutputs RankLayer::outputs() const {
  const auto experts = balance_.size();
  return {.out = residual_.download(stream_),
          .dx = dx_.download(stream_),
          .d_router = d_router_.download(stream_),
          .d_up = d_up_.download(stream_),
          .d_down = d_down_.download(stream_),
          .balance = balance_.download(stream_),
          .counts = download(layer_->counts(), experts),
          .dropped = download(layer_->dropped(), experts)};
}

}  // namespace rungs::moe

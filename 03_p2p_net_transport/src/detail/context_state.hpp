#pragma once
/// @file context_state.hpp
/// What a Context points to; its links keep it alive.

#include "detail/progress.hpp"

#include <rungs/bootstrap/group.hpp>
#include <rungs/core/error.hpp>
#include <rungs/gpu/device.hpp>
#include <rungs/transport/transport.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace rungs::transport::detail {

class Hca;  // carriers/verbs.hpp

/// Whether the loss of that rank (-1: of some rank) is the loss of `peer`.
bool concerns(const bootstrap::Lost& lost, int peer) noexcept;
Error lost_error(const bootstrap::Lost& lost);

class ContextState {
 public:
  ContextState(bootstrap::Group& group, const gpu::Device* device);
  ~ContextState();
  ContextState(const ContextState&) = delete;
  ContextState& operator=(const ContextState&) = delete;

  [[nodiscard]] bootstrap::Group& group() const noexcept { return group_; }
  [[nodiscard]] const std::optional<gpu::Device>& device() const noexcept { return device_; }
  /// @throws Error kPeerLost
  void throw_if_lost(int peer) const;
  /// Empty if this rank can use `kind` towards `peer`; otherwise why not.
  [[nodiscard]] std::string_view why_not(int peer, Kind kind) const;
  /// Started at the first use.
  ProgressThread& progress();
  /// The HCA known by that name, opened at the first use.
  std::shared_ptr<Hca> hca(const std::string& name);
  void add_hca(const std::string& name, const verbs::Device& device);

 private:
  bootstrap::Group& group_;
  std::optional<gpu::Device> device_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Hca>> hcas_;
  std::unique_ptr<ProgressThread> progress_;
};

}  // namespace rungs::transport::detail

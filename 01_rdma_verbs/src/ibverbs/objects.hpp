#pragma once
// The rdma-core provider: each verbs object keeps the libibverbs one and what was made before it.

#include "provider.hpp"

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace rungs::verbs::ibverbs {

// A libibverbs object and the function that destroys it.
template <class T, int (*Destroy)(T*)>
class Handle {
 public:
  explicit Handle(T* object = nullptr) : object_(object) {}
  Handle(Handle&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Handle() {
    if (object_ != nullptr) Destroy(object_);
  }
  [[nodiscard]] T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  T* object_;
};

// An opened device with what connecting needs to know of its port.
struct Context {
  Handle<ibv_context, ibv_close_device> handle;
  DeviceInfo info;
  ibv_device_attr limits{};
  ibv_port_attr port{};
  int gid_index = 0;
  Gid gid{};

  [[nodiscard]] bool is_ethernet() const noexcept {
    return port.link_layer == IBV_LINK_LAYER_ETHERNET;
  }
};

inline constexpr std::uint8_t kPort = 1;
inline constexpr std::uint16_t kRoceUdpPort = 4791;

// Throws kVerbs: "mlx5_0: ibv_reg_mr: Cannot allocate memory; <advice>".
[[noreturn]] void fail(const Context& context, const char* call, int reason,
                       const char* advice = "");

class QueuePair;

class CompletionQueue final : public provider::CompletionQueue {
 public:
  CompletionQueue(std::shared_ptr<Context> context, unsigned depth);
  std::size_t poll(std::span<Completion> out) noexcept override;
  bool overflowed() const noexcept override { return overflowed_; }
  unsigned depth() const noexcept override { return depth_; }
  [[nodiscard]] ibv_cq* get() const noexcept { return handle_.get(); }
  void attach(QueuePair& pair);
  void detach(QueuePair& pair);

 private:
  std::shared_ptr<Context> context_;
  Handle<ibv_cq, ibv_destroy_cq> handle_;
  unsigned depth_;
  std::atomic<bool> overflowed_ = false;
  std::mutex mutex_;
  std::map<std::uint32_t, QueuePair*> pairs_;  // by number
};

struct ProtectionDomainHandle {
  std::shared_ptr<Context> context;
  Handle<ibv_pd, ibv_dealloc_pd> handle;
};

class QueuePair final : public provider::QueuePair {
 public:
  QueuePair(std::shared_ptr<ProtectionDomainHandle> pd, const QueuePairOptions& options,
            std::shared_ptr<CompletionQueue> send_cq, std::shared_ptr<CompletionQueue> recv_cq);
  ~QueuePair() override;
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;
  std::uint32_t number() const noexcept override { return handle_->qp_num; }
  QpAddress address() const override;
  void connect(const QpAddress& remote) override;
  PostResult post_send(std::span<const SendRequest> requests) noexcept override;
  PostResult post_recv(std::span<const RecvRequest> requests) noexcept override;
  std::size_t send_slots_free() const noexcept override;
  bool failed() const noexcept override { return failed_; }
  void fail() noexcept override;
  // Turns a work completion into one of ours and frees the slots that it covers.
  Completion complete(const ibv_wc& wc) noexcept;

 private:
  // libibverbs gives back 64 bits of ours. They say which request of which ring it was: after an
  // error its own opcode field is undefined, and slots are freed up to that request.
  struct Ring {
    struct Entry {
      std::uint64_t id = 0;
      Opcode opcode = Opcode::kSend;
    };
    explicit Ring(std::uint32_t depth, std::uint32_t max_segments)
        : entries(depth),
          segments(std::size_t{depth} * max_segments) {}
    std::vector<Entry> entries;
    std::vector<ibv_sge> segments;  // of the list being posted
    std::uint64_t head = 0;         // requests posted
    std::atomic<std::uint64_t> tail = 0;
    [[nodiscard]] std::size_t free_slots() const noexcept {
      return entries.size() - (head - tail.load(std::memory_order_acquire));
    }
    Entry& at(std::uint64_t position) { return entries[position & (entries.size() - 1)]; }
  };

  void modify(ibv_qp_attr& attributes, int mask, const char* what);
  PostError check(const SendRequest& request) const noexcept;

  std::shared_ptr<ProtectionDomainHandle> pd_;
  std::shared_ptr<CompletionQueue> send_cq_;
  std::shared_ptr<CompletionQueue> recv_cq_;
  QueuePairOptions options_;
  Handle<ibv_qp, ibv_destroy_qp> handle_;
  std::uint32_t first_psn_;
  Ring send_;
  Ring recv_;
  std::vector<ibv_send_wr> send_list_;
  std::vector<ibv_recv_wr> recv_list_;
  std::atomic<bool> connected_ = false;
  std::atomic<bool> failed_ = false;
};

}  // namespace rungs::verbs::ibverbs

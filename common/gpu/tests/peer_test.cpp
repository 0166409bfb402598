// Memory of another process: exported, sent over a Unix socket, mapped and written by the peer's
// kernel.

#include "fixture.hpp"
#include "kernels.hpp"

#include <rungs/gpu/peer.hpp>
#include <rungs/testing/ranks.hpp>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>

namespace rungs::gpu::test {
namespace {

struct Message {
  std::size_t size_bytes;
  std::size_t offset_bytes;
};

void send_memory(int socket, const ExportedMemory& memory) {
  Message message{memory.size_bytes, memory.offset_bytes};
  iovec part{&message, sizeof(message)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(rights), &memory.fd, sizeof(int));
  if (sendmsg(socket, &header, 0) != sizeof(message)) throw std::runtime_error("sendmsg failed");
}

ExportedMemory receive_memory(int socket) {
  Message message{};
  iovec part{&message, sizeof(message)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  if (recvmsg(socket, &header, 0) != sizeof(message)) throw std::runtime_error("recvmsg failed");
  ExportedMemory memory{-1, message.size_bytes, message.offset_bytes};
  std::memcpy(&memory.fd, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof(int));
  return memory;
}

void expect_words(const Words& seen, const Words& expected) {
  if (seen != expected) throw std::runtime_error("memory does not hold what the peer wrote");
}

void send_byte(int socket) {
  if (write(socket, "x", 1) != 1) throw std::runtime_error("write failed");
}
void receive_byte(int socket) {
  char byte = 0;
  if (read(socket, &byte, 1) != 1) throw std::runtime_error("the peer is gone");
}

// Owns two words in the middle of a buffer; the peer adds 100 to them from its own kernel.
void owner(int socket) {
  const Device device = Device::open(0);
  device.make_current();
  const Buffer<std::uint32_t> before(device, 5000, Space::kShared);  // so that the offset is not 0
  Buffer<std::uint32_t> buffer(device, 8, Space::kShared);
  buffer.upload(Words{0, 1, 2, 3, 4, 5, 6, 7});
  const ExportedMemory memory = export_memory(device, buffer.data() + 3);
  send_memory(socket, memory);
  close(memory.fd);
  receive_byte(socket);
  expect_words(buffer.download(), {0, 1, 2, 103, 104, 5, 6, 7});
  launch_affine(nullptr, buffer.data(), 8, {2, 0, {}});
  device.synchronize();
  send_byte(socket);
  receive_byte(socket);
}

void peer(int socket) {
  const Device device = Device::open(0);
  device.make_current();
  const ExportedMemory memory = receive_memory(socket);
  PeerMapping mapping(device, memory);
  close(memory.fd);
  const PeerMapping moved = std::move(mapping);
  auto* theirs = static_cast<std::uint32_t*>(moved.data());
  launch_affine(nullptr, theirs, 2, {1, 100, {}});
  device.synchronize();
  send_byte(socket);
  receive_byte(socket);
  Buffer<std::uint32_t> here(device, 5);
  launch_add(nullptr, here.data(), theirs, 5, 0);
  expect_words(here.download(), {206, 208, 10, 12, 14});
  send_byte(socket);
}

TEST(PeerTest, TwoProcessesShareMemory) {
#if RUNGS_GPU_CUDA || defined(RUNGS_SANITIZE_THREAD)
  if (device_was_used)
    return skip(Lack::kOwnProcess, "not after other tests in one process; ctest runs it alone");
#endif
  int sockets[2] = {-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  const auto outcomes = rungs::testing::run_processes(2, [&](int rank) {
    if (!rungs::testing::why_no_device().empty() && !rungs::testing::gpu_is_required()) return;
    rank == 0 ? owner(sockets[0]) : peer(sockets[1]);
  });
  EXPECT_EQ(rungs::testing::failures(outcomes), "");
  close(sockets[0]);
  close(sockets[1]);
}

class PeerErrors : public GpuTest {};

TEST_F(PeerErrors, OnlySharedMemoryIsExported) {
  Buffer<std::uint32_t> device_memory = words(4);
  int here = 0;
  expect_contains(error_of([&] { (void)export_memory(device(), device_memory.data()); }),
                  "InvalidArgument: export_memory: ");
  expect_contains(error_of([&] { (void)export_memory(device(), &here); }),
                  "InvalidArgument: export_memory: ");
  expect_contains(error_of([&] { (void)export_memory(device(), nullptr); }),
                  "InvalidArgument: export_memory: ");
}

TEST_F(PeerErrors, BadDescriptorsAreRefused) {
  Buffer<std::uint32_t> buffer = words(4, Space::kShared);
  const ExportedMemory good = export_memory(device(), buffer.data());
  const auto error = [&](ExportedMemory memory) {
    return error_of([&] { PeerMapping(device(), memory); });
  };
  expect_contains(error({-1, 4096, 0}),
                  "InvalidArgument: peer mapping: descriptor -1 cannot be used: ");
  expect_contains(error({good.fd, good.size_bytes, good.size_bytes}), "lies outside the");
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  EXPECT_NE(error({null, 4096, 0}), "nothing");
  close(null);
  EXPECT_EQ(error(good), "nothing");
  close(good.fd);
}

}  // namespace
}  // namespace rungs::gpu::test

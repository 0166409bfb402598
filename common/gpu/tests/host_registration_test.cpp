// Host memory that kernels reach because it was registered.

#include "fixture.hpp"
#include "kernels.hpp"

#include <rungs/core/deadline.hpp>
#include <rungs/gpu/graph.hpp>
#include <rungs/gpu/host_registration.hpp>

#include <atomic>
#include <cstdlib>
#include <memory>

namespace rungs::gpu::test {
namespace {

constexpr std::size_t kPage = HostRegistration::kPageBytes;

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Pages = std::unique_ptr<std::byte[], Free>;
Pages pages(std::size_t count) {
  return Pages(static_cast<std::byte*>(std::aligned_alloc(kPage, count * kPage)));
}

class HostRegistrationTest : public GpuTest {};

TEST_F(HostRegistrationTest, KernelsAndHostShareIt) {
  const Pages memory = pages(2);
  const HostRegistration registered(device(), memory.get(), 2 * kPage);
  EXPECT_EQ(registered.host(), memory.get());
  EXPECT_EQ(registered.size_bytes(), 2 * kPage);
  auto* const flags = reinterpret_cast<std::uint32_t*>(memory.get() + kPage);  // not its beginning
  std::atomic_ref<std::uint32_t> to_kernel(flags[0]);
  std::atomic_ref<std::uint32_t> to_host(flags[1]);
  to_kernel = 0;
  to_host = 0;
  Buffer<std::uint32_t> reached = words_of({0});
  constexpr std::uint32_t kRounds = 10;
  const Stream stream(device());
  std::uint32_t* const on_device = registered.on_device(flags);
  launch_ping_pong(stream, on_device, on_device + 1, kRounds, false, reached.data());
  for (std::uint32_t round = 1; round <= kRounds; ++round) {
    to_kernel = round;
    wait_until([&] { return to_host == round; }, Deadline::standard(),
               [] { return std::string("the kernel's flag"); });
  }
  EXPECT_EQ(reached.download(stream), Words{kRounds});
}

TEST_F(HostRegistrationTest, ARangeIsRegisteredOnceAtATime) {
  const Pages memory = pages(4);
  std::byte* const at = memory.get();
  HostRegistration middle(device(), at + kPage, 2 * kPage);
  const auto refused = [&](std::byte* from, std::size_t count) {
    expect_contains(error_of([&] { HostRegistration(device(), from, count * kPage); }),
                    "registered already");
  };
  refused(at + kPage, 2);
  refused(at, 2);
  refused(at + 2 * kPage, 2);
  const HostRegistration before(device(), at, kPage);
  const HostRegistration after(device(), at + 3 * kPage, kPage);
  HostRegistration moved = std::move(middle);
  EXPECT_EQ(middle.host(), nullptr);  // NOLINT(bugprone-use-after-move)
  refused(at + kPage, 1);
  moved.reset();
  moved.reset();
  const HostRegistration again(device(), at + kPage, kPage);
  HostRegistration other(device(), at + 2 * kPage, kPage);
  other = HostRegistration();
  EXPECT_EQ(other.size_bytes(), 0u);
}

TEST_F(HostRegistrationTest, BadRangesAreRefused) {
  const Pages memory = pages(2);
  const auto text = [&](void* at, std::size_t size) {
    return error_of([&] { HostRegistration(device(), at, size); });
  };
  expect_contains(text(nullptr, kPage), "InvalidArgument: registration of 4096 bytes");
  expect_contains(text(nullptr, kPage), "the pointer is null");
  expect_contains(text(memory.get() + 64, kPage), "multiples of 4096");
  expect_contains(text(memory.get(), 100), "multiples of 4096");
  expect_contains(text(memory.get(), 0), "registration of 0 bytes");
  const Stream stream(device());
  expect_contains(error_of([&] {
                    (void)Graph::capture(stream,
                                         [&] { HostRegistration(device(), memory.get(), kPage); });
                  }),
                  "registration of 4096 bytes of host memory");
  const HostRegistration still(device(), memory.get(), kPage);
}

}  // namespace
}  // namespace rungs::gpu::test

#pragma once
/// @file fixture.hpp
/// What the gpu tests share: a device with a clean error state, and the text of an expected error.

#include <rungs/core/error.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/testing/errors.hpp>
#include <rungs/testing/gpu_test.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rungs::gpu::test {

using testing::Lack;
using testing::skip;

using Words = std::vector<std::uint32_t>;

/// Whether a test of this process has used a device: neither a CUDA context nor ThreadSanitizer
/// survives a fork() then.
inline bool device_was_used = false;

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    device_was_used = true;
    RUNGS_NEEDS_DEVICE();
    device_.emplace(Device::open(0));
    device_->make_current();
  }
  [[nodiscard]] const Device& device() const { return *device_; }
  [[nodiscard]] Buffer<std::uint32_t> words(std::size_t count, Space space = Space::kDevice) const {
    return {device(), count, space};
  }
  /// A device buffer that holds `values`.
  [[nodiscard]] Buffer<std::uint32_t> words_of(const Words& values) const {
    Buffer<std::uint32_t> buffer(device(), values.size());
    buffer.upload(values);
    return buffer;
  }

 private:
  std::optional<Device> device_;
};

using testing::error_of;

/// Asserts that `text` contains `part`.
inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" is not in: " << text;
}

}  // namespace rungs::gpu::test

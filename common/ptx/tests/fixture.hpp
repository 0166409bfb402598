#pragma once
/// @file fixture.hpp
/// What the conformance tests share.

#include "conformance.hpp"

#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/testing/gpu_test.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <vector>

namespace rungs::ptx::test {

class Conformance : public ::testing::Test {
 protected:
  void SetUp() override {
    RUNGS_NEEDS_DEVICE();
    device_.emplace(gpu::Device::open(0));
    device_->make_current();
  }
  [[nodiscard]] const gpu::Device& device() const { return *device_; }

  template <class T>
  gpu::Buffer<T> upload(const std::vector<T>& values) const {
    gpu::Buffer<T> buffer(device(), values.size());
    buffer.upload(values);
    return buffer;
  }
  template <class T>
  gpu::Buffer<T> filled(std::size_t count, T value) const {
    return upload(std::vector<T>(count, value));
  }

 private:
  std::optional<gpu::Device> device_;
};

}  // namespace rungs::ptx::test

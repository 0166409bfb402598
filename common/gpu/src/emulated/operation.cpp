#include "operation.hpp"

#include "device_state.hpp"

#include <rungs/core/error.hpp>

#include <cstring>
#include <exception>
#include <utility>

namespace rungs::gpu::detail {
namespace {

// Below this a copy costs less than handing it to a worker.
constexpr std::size_t kInlineBytes = std::size_t{64} << 10;

bool start_on_worker(DeviceState& device, std::size_t size_bytes, const Completion& completion,
                     std::function<void()> work) {
  if (size_bytes <= kInlineBytes) {
    work();
    return true;
  }
  device.executor().submit_host(std::move(work), [completion] { completion.finish({}); });
  return false;
}

bool start(DeviceState& device, const KernelOperation& kernel, const Completion& completion) {
  device.executor().submit(kernel.request,
                           [completion](const std::string& report) { completion.finish(report); });
  return false;
}

bool start(DeviceState& device, const CopyOperation& copy, const Completion& completion) {
  return start_on_worker(device, copy.size_bytes, completion,
                         [&copy] { std::memcpy(copy.to, copy.from, copy.size_bytes); });
}

bool start(DeviceState& device, const FillOperation& fill, const Completion& completion) {
  return start_on_worker(device, fill.size_bytes, completion,
                         [&fill] { std::memset(fill.to, fill.value, fill.size_bytes); });
}

std::string describe(const KernelOperation& kernel) {
  return concat("kernel ", kernel.request->name);
}
std::string describe(const CopyOperation& copy) {
  return concat("copy of ", copy.size_bytes, " bytes");
}
std::string describe(const FillOperation& fill) {
  return concat("fill of ", fill.size_bytes, " bytes");
}

}  // namespace

bool Operation::start(const Completion& completion) const {
  if (device_->failed()) return true;
  try {
    return std::visit([&](const auto& what) { return detail::start(*device_, what, completion); },
                      what_);
  } catch (
      const std::exception& error) {  // this may be a worker thread, which has nobody to throw to
    device_->fail(concat(describe(), " could not be started: ", error.what()));
    return true;
  }
}

bool Operation::start(const Completion& completion, emulator::Dependence dependence) const {
  if (device_->failed()) return true;
  const auto* kernel = std::get_if<KernelOperation>(&what_);
  if (kernel == nullptr) return start(completion);
  try {
    device_->executor().submit(
        kernel->request, [completion](const std::string& report) { completion.finish(report); },
        std::move(dependence));
  } catch (const std::exception& error) {
    device_->fail(concat(describe(), " could not be started: ", error.what()));
    return true;
  }
  return false;
}

bool Operation::may_start_early() const {
  const auto* kernel = std::get_if<KernelOperation>(&what_);
  return kernel != nullptr && kernel->request->config.programmatic;
}

std::string Operation::describe() const {
  return std::visit([](const auto& what) { return detail::describe(what); }, what_);
}

}  // namespace rungs::gpu::detail

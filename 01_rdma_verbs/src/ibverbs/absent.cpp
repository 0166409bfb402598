// In place of the rdma-core provider in a build without libibverbs.

#include "provider.hpp"

#include <rungs/core/error.hpp>

namespace rungs::verbs::ibverbs {

std::vector<DeviceInfo> list() { return {}; }

std::shared_ptr<provider::Device> open(std::string_view name) {
  RUNGS_THROW(
      kVerbs, "device \"", name,
      "\": this build has no rdma-core provider. Install libibverbs-dev, configure again and "
      "rebuild; \"soft0\" needs neither library nor hardware");
}

}  // namespace rungs::verbs::ibverbs

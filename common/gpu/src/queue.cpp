#include <rungs/gpu/queue.hpp>

namespace rungs::gpu {

void Profile::add(std::string_view name, double seconds) {
  for (Part& part : parts) {
    if (part.name != name) continue;
    part.seconds += seconds;
    ++part.calls;
    return;
  }
  parts.push_back({std::string(name), seconds, 1});
}

}  // namespace rungs::gpu

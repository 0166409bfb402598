#include <rungs/collectives/kernel_args.hpp>

namespace rungs::collectives {

const char* to_string(ProtocolId protocol) noexcept {
  switch (protocol) {
    case ProtocolId::kSimple:
      return "Simple";
    case ProtocolId::kLl:
      return "LL";
    case ProtocolId::kLl128:
      return "LL128";
    case ProtocolId::kSymmetric:
      return "symmetric";
  }
  return "unknown";
}

const char* to_string(Collective collective) noexcept {
  switch (collective) {
    case Collective::kAllReduce:
      return "all_reduce";
    case Collective::kAllGather:
      return "all_gather";
    case Collective::kReduceScatter:
      return "reduce_scatter";
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kAllToAll:
      return "all_to_all";
  }
  return "unknown";
}

const char* to_string(Op op) noexcept {
  switch (op) {
    case Op::kSum:
      return "sum";
    case Op::kProd:
      return "prod";
    case Op::kMax:
      return "max";
    case Op::kMin:
      return "min";
    case Op::kAvg:
      return "avg";
  }
  return "unknown";
}

}  // namespace rungs::collectives

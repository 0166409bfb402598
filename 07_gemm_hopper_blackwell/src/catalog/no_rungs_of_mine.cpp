// Stands in for exercises/07/mine.cu until a reader makes that file (exercises/README.md).

#include "catalog/my_rungs.hpp"

namespace rungs::gemm {

std::vector<ladder::Rung<Args>> my_rungs() { return {}; }

}  // namespace rungs::gemm

#include <rungs/bootstrap/catalog.hpp>
#include <rungs/testing/ladder_test.hpp>

namespace {
RUNGS_LADDER_TEST(BootstrapLadder, rungs::bootstrap::operations());
}  // namespace

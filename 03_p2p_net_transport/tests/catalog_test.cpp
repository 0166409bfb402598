// Every rung of every case of the catalog against its oracle.

#include <rungs/testing/ladder_test.hpp>
#include <rungs/transport/catalog.hpp>

namespace rungs::transport {
namespace {

RUNGS_LADDER_TEST(TransportLadder, operations());

}  // namespace
}  // namespace rungs::transport

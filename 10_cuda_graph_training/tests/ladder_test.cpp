#include <rungs/testing/ladder_test.hpp>
#include <rungs/training/catalog.hpp>

namespace rungs::training {
namespace {

RUNGS_LADDER_TEST(TrainingLadder, operations());

}  // namespace
}  // namespace rungs::training

#include <rungs/collectives/catalog.hpp>
#include <rungs/testing/ladder_test.hpp>

RUNGS_LADDER_TEST(Ladder, rungs::collectives::operations());

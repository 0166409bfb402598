#include <rungs/protocols/catalog.hpp>
#include <rungs/testing/ladder_test.hpp>

RUNGS_LADDER_TEST(Ladder, rungs::protocols::operations());

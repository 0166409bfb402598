#include <rungs/symmetric/catalog.hpp>
#include <rungs/testing/ladder_test.hpp>

RUNGS_LADDER_TEST(Ladder, rungs::symmetric::operations());

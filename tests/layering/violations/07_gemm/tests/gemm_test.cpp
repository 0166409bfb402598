// Allowed: a stage's tests use rungs::testing and the stages below.
#include <rungs/collectives/communicator.hpp>
#include <rungs/testing/oracle.hpp>

// A program outside the project that links every stage there is. It only names what it links: the ladders
// hold the addresses of every rung, and a trainer can be destroyed without a device.
#include <rungs/attention/attention.hpp>
#include <rungs/gemm/gemm.hpp>
#include <rungs/training/trainer.hpp>

#include <cstdio>
#include <memory>

int main() {
  using namespace rungs;
  int rungs_linked = 0;
  for (const auto& rung : gemm::kLadder) rungs_linked += rung.prepare != nullptr;
  for (const auto& rung : attention::kForwardLadder) rungs_linked += rung.prepare != nullptr;
  for (const auto& rung : attention::kBackwardLadder) rungs_linked += rung.prepare != nullptr;
  const std::unique_ptr<training::Trainer> trainer;
  std::printf("%d rungs and a trainer linked\n", rungs_linked);
  return trainer == nullptr && rungs_linked > 0 ? 0 : 1;
}

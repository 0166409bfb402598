// Where a training step's time goes, and what a step costs when several single-rank copies share
// the machine:
//
//     step_breakdown [copies = 4] [batch = 4] [steps = 20]
//
// Copies are threads with a device each (one GPU: all on it). Times are wall time; on the emulator
// they say nothing about a GPU.

#include <rungs/core/error.hpp>
#include <rungs/training/trainer.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace rungs;

// Bytes with some structure: what a step costs does not depend on the text.
training::Corpus made_up_text() {
  training::Corpus corpus;
  corpus.name = "made up";
  std::uint32_t state = 1;
  for (int i = 0; i < 20000; ++i) {
    state = state * 1664525u + 1013904223u;
    (i < 18000 ? corpus.train : corpus.held_out)
        .push_back(static_cast<std::uint8_t>('a' + (state >> 24) % 26));
  }
  return corpus;
}

training::Trainer make_trainer(int batch, int ordinal) {
  training::TrainConfig train;
  train.batch = batch;
  return {training::ModelConfig{}, train, made_up_text(),
          gpu::Device::open(ordinal % gpu::Device::count())};
}

void run(int copies, int batch, int steps) {
  std::vector<training::Trainer> trainers;
  trainers.reserve(static_cast<std::size_t>(copies));
  for (int i = 0; i < copies; ++i) trainers.push_back(make_trainer(batch, i));
  std::vector<std::exception_ptr> failures(trainers.size());
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t cpu_start = std::clock();
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < trainers.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        for (int step = 0; step < steps; ++step) trainers[i].step(training::Mode::kGraph);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  const double cpu = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
  std::printf("%d copies, %d x 64 tokens: %.3f s a step of all, %.3f s CPU a step and copy\n",
              copies, batch, wall.count() / steps, cpu / steps / copies);

  double total = 0;
  const std::vector<training::PartTime> parts = trainers.front().profile_step();
  for (const training::PartTime& part : parts) total += part.seconds;
  std::printf("one eager step, waited for part by part: %.1f ms\n", total * 1e3);
  for (const training::PartTime& part : parts) {
    std::printf("  %-20s %8.2f ms %5.1f %%  %d\n", part.part.c_str(), part.seconds * 1e3,
                100 * part.seconds / total, part.calls);
  }
}

}  // namespace

int main(int count, char** words) {
  const auto number = [&](int index, int otherwise) {
    return count > index ? std::atoi(words[index]) : otherwise;
  };
  try {
    run(number(1, 4), number(2, 4), number(3, 20));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

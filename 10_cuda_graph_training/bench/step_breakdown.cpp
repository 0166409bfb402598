// Where a training step's time goes, what a step costs when several single-rank copies share the
// machine, and what it costs as many ranks of one run:
//
//     step_breakdown [copies = 4] [batch = 4] [steps = 20] [nodes = 0]
//
// nodes = 0: copies that know nothing of each other; from 1 on: ranks of one run on so many pretend
// nodes, with `batch` sequences each. Copies and ranks are threads with a device each (one GPU: all
// on it). Times are wall time; on the emulator they say nothing about a GPU.

#include <rungs/bootstrap/group.hpp>
#include <rungs/core/error.hpp>
#include <rungs/training/trainer.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <functional>
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

training::TrainConfig settings(int batch) {
  training::TrainConfig train;
  train.batch = batch;
  return train;
}

// Runs body(i) in `count` threads. @throws the first failure
void in_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        body(i);
      } catch (...) {
        failures[static_cast<std::size_t>(i)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

void show(const std::vector<training::PartTime>& parts) {
  double total = 0;
  for (const training::PartTime& part : parts) total += part.seconds;
  std::printf("one eager step, waited for part by part: %.1f ms\n", total * 1e3);
  for (const training::PartTime& part : parts) {
    std::printf("  %-20s %8.2f ms %5.1f %%  %d\n", part.part.c_str(), part.seconds * 1e3,
                100 * part.seconds / total, part.calls);
  }
}

// Wall and CPU time of `steps` steps, measured by the thread that calls begin() and end().
class Stopwatch {
 public:
  explicit Stopwatch(const std::string& what) : what_(what) {}
  void begin() {
    wall_ = std::chrono::steady_clock::now();
    cpu_ = std::clock();
  }
  void end(int steps, int copies) const {
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - wall_;
    const double cpu = static_cast<double>(std::clock() - cpu_) / CLOCKS_PER_SEC;
    std::printf("%s: %.3f s a step of all, %.3f s CPU a step and copy\n", what_.c_str(),
                wall.count() / steps, cpu / steps / copies);
  }

 private:
  std::string what_;
  std::chrono::steady_clock::time_point wall_;
  std::clock_t cpu_ = 0;
};

void run_copies(int copies, int batch, int steps) {
  std::vector<training::Trainer> trainers;
  trainers.reserve(static_cast<std::size_t>(copies));
  for (int i = 0; i < copies; ++i) {
    trainers.emplace_back(training::ModelConfig{}, settings(batch), made_up_text(),
                          gpu::Device::open(i % gpu::Device::count()));
  }
  Stopwatch watch(concat(copies, " copies, ", batch, " x 64 tokens"));
  watch.begin();
  in_threads(copies, [&](int i) {
    for (int step = 0; step < steps; ++step)
      trainers[static_cast<std::size_t>(i)].step(training::Mode::kGraph);
  });
  watch.end(steps, copies);
  show(trainers.front().profile_step());
}

void run_ranks(int ranks, int nodes, int batch, int steps) {
  bootstrap::RootOptions options;
  options.ranks = ranks;
  options.interface_or_address = "127.0.0.1";
  const bootstrap::Root root(options);
  in_threads(ranks, [&](int rank) {
    bootstrap::GroupOptions place;
    if (nodes > 1) place.host_id = concat("node ", rank * nodes / ranks);
    bootstrap::Group group(root.id(), rank, ranks, place);
    const gpu::Device device = gpu::Device::open(rank % gpu::Device::count());
    device.make_current();
    for (const auto gradients :
         {training::Gradients::kAfterBackward, training::Gradients::kOverlapped}) {
      const bool overlapped = gradients == training::Gradients::kOverlapped;
      training::RanksOptions how;
      how.gradients = gradients;
      training::Trainer trainer(training::ModelConfig{}, settings(batch * ranks), made_up_text(),
                                device, group, how);
      trainer.step(training::Mode::kGraph);  // captures
      Stopwatch watch(concat(ranks, " ranks on ", nodes, " nodes, ", batch, " x 64 tokens each, ",
                             overlapped ? "gradients overlapped" : "gradients after backward"));
      group.barrier();
      watch.begin();
      for (int step = 0; step < steps; ++step) trainer.step(training::Mode::kGraph);
      group.barrier();
      if (rank == 0) watch.end(steps, ranks);
      const std::vector<training::PartTime> parts = trainer.profile_step();
      if (rank == 0 && overlapped) show(parts);
    }
  });
}

}  // namespace

int main(int count, char** words) {
  const auto number = [&](int index, int otherwise) {
    return count > index ? std::atoi(words[index]) : otherwise;
  };
  try {
    const int nodes = number(4, 0);
    if (nodes > 0) {
      run_ranks(number(1, 4), nodes, number(2, 4), number(3, 20));
    } else {
      run_copies(number(1, 4), number(2, 4), number(3, 20));
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

// A program outside the project: stages 08 and 10 through the installed libraries.
#include <rungs/attention/attention.hpp>
#include <rungs/core/error.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/training/trainer.hpp>

#include <cstdio>
#include <string>
#include <vector>

int main() try {
  using namespace rungs;
  if (gpu::Device::count() == 0) {
    std::puts("no GPU: linked, not run");
    return 0;
  }
  const gpu::Device device = gpu::Device::open(0);
  device.make_current();

  // One query and one key: the softmax is 1, so the output is V.
  constexpr int kWidth = 32;
  const std::vector<bf16> ones(kWidth, to_bf16(1.0f)), values(kWidth, to_bf16(-2.5f));
  gpu::Buffer<bf16> q(device, kWidth), k(device, kWidth), v(device, kWidth), o(device, kWidth);
  gpu::Buffer<float> lse(device, 1);
  q.upload(ones);
  k.upload(ones);
  v.upload(values);
  const attention::ForwardPlan plan({.q = tensor<const bf16>(q.data(), 1, 1, 1, kWidth),
                                     .k = tensor<const bf16>(k.data(), 1, 1, 1, kWidth),
                                     .v = tensor<const bf16>(v.data(), 1, 1, 1, kWidth),
                                     .o = tensor(o.data(), 1, 1, 1, kWidth),
                                     .lse = tensor(lse.data(), 1, 1, 1)},
                                    device);
  plan.run(nullptr);
  for (const bf16 value : o.download()) {
    if (value.bits != to_bf16(-2.5f).bits) {
      std::printf("attention: %g, expected -2.5\n", to_float(value));
      return 1;
    }
  }

  training::Corpus corpus;
  corpus.name = "made up";
  for (int i = 0; i < 4000; ++i) corpus.train.push_back(static_cast<std::uint8_t>('a' + i % 3));
  corpus.held_out.assign(corpus.train.begin(), corpus.train.begin() + 400);
  training::ModelConfig model;
  model.layers = 1;
  training::TrainConfig config;
  config.steps = 12;
  training::Trainer trainer(model, config, corpus, device);
  const double first = trainer.step(training::Mode::kGraph).loss;
  double last = first;
  while (trainer.steps_done() < config.steps) last = trainer.step(training::Mode::kGraph).loss;
  if (!(last < first)) {
    std::printf("the loss went from %g to %g\n", first, last);
    return 1;
  }
  std::printf("%s attention; loss %.2f to %.2f in %d steps on %s\n",
              std::string(plan.rung()).c_str(), first, last, config.steps,
              device.info().name.c_str());
  return 0;
} catch (const std::exception& error) {
  std::printf("%s\n", error.what());
  return 1;
}

/// Several passes of one layer: captured and replayed, with another routing each time, with and
/// without VJP.

#include <rungs/gpu/graph.hpp>
#include <rungs/testing/compare.hpp>
#include <rungs/testing/gpu_test.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "world.hpp"

namespace rungs::moe {
namespace {

constexpr int kExperts = 8;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

MoeCase of(std::vector<int> tokens, std::vector<float> bias) {
  MoeCase result;
  result.experts = kExperts;
  result.tokens = std::move(tokens);
  result.bias = std::move(bias);
  return result;
}

// A captured step follows the routing of each replay, and no launch in it waits for the host: the
// ranks replay twenty times without one synchronisation between them.
TEST(Captured, ReplaysHaveTheBitsOfEagerRuns) {
  RUNGS_NEEDS_DEVICE();
#ifdef __SANITIZE_THREAD__
  constexpr int kReplays = 3;  // each takes a second there
#else
  constexpr int kReplays = 20;
#endif
  const MoeInputs inputs = make_inputs(of({33, 0, 20, 40}, falling(kExperts, 0.4f)), 2);
  for (const Exchange exchange : {Exchange::kPadded, Exchange::kCounted}) {
    const auto want = run_layer(inputs, {.exchange = exchange});
    EXPECT_EQ(in_ranks(inputs, {.exchange = exchange},
                       [&](int rank, RankLayer& layer) {
                         const gpu::Graph graph = gpu::Graph::capture(layer.stream(), [&] {
                           layer.forward();
                           layer.vjp();
                         });
                         layer.barrier();
                         for (int i = 0; i < kReplays; ++i) graph.replay(layer.stream());
                         layer.synchronize();
                         layer.barrier();
                         // The last one once more from the start: residual += happens once.
                         layer.reset();
                         layer.barrier();
                         graph.replay(layer.stream());
                         layer.synchronize();
                         layer.barrier();
                         const RankOutputs got = layer.outputs();
                         const RankOutputs& eager = want[static_cast<std::size_t>(rank)];
                         const auto same = [](const std::vector<float>& a,
                                              const std::vector<float>& b, const char* name) {
                           const std::string wrong = testing::first_bit_difference(a, b);
                           if (!wrong.empty()) throw std::runtime_error(concat(name, ": ", wrong));
                         };
                         same(got.out, eager.out, "residual");
                         same(got.dx, eager.dx, "dx");
                         same(got.d_router, eager.d_router, "d_router");
                         same(got.d_up, eager.d_up, "d_up");
                         same(got.d_down, eager.d_down, "d_down");
                         layer.barrier();
                       }),
              "")
        << "exchange " << static_cast<int>(exchange);
  }
}

// Passes whose routing changes each time, one after the other without a word between the ranks: a
// rank that has nothing to do runs ahead as far as the protocol lets it, and what one pass left in
// a window must not show in the next.
class InARow : public ::testing::TestWithParam<Exchange> {};

TEST_P(InARow, EachPassHasItsOwnRouting) {
  RUNGS_NEEDS_DEVICE();
  constexpr std::size_t kPasses = 12;
  // The router is the same; a token's channel 0 says how much of the bias it gets: experts 0 and 1
  // get their share, everything, or nothing.
  const MoeCase spec = of({40, 0, 3, 33}, favouring(kExperts, 0, 2, 12));
  std::vector<MoeInputs> variants;
  std::vector<std::vector<RankOutputs>> want;
  for (const float share : {0.0f, 1.0f, -1.0f}) {
    MoeInputs& inputs = variants.emplace_back(make_inputs(spec, 4));
    for (std::vector<bf16>& x : inputs.x)
      for (std::size_t i = 0; i < x.size(); i += static_cast<std::size_t>(spec.width))
        x[i] = to_bf16(share);
    want.push_back(run_layer(inputs, {.exchange = GetParam()}));
  }
  EXPECT_EQ(
      in_ranks(variants[0], {.exchange = GetParam()},
               [&](int rank, RankLayer& layer) {
                 const auto me = static_cast<std::size_t>(rank);
                 const gpu::Device device = gpu::Device::open(rank % gpu::Device::count());
                 const LayerArgs& args = layer.args();
                 const std::size_t values = variants[0].residual[me].size();
                 const std::size_t weights = variants[0].up.size() / 4;
                 std::vector<gpu::Buffer<bf16>> x;
                 gpu::Buffer<float> residual(device, values);
                 residual.upload(variants[0].residual[me], layer.stream());
                 std::vector<gpu::Buffer<float>> out, dx, d_up;
                 for (const MoeInputs& variant : variants) {
                   x.emplace_back(device, values);
                   x.back().upload(variant.x[me], layer.stream());
                 }
                 for (std::size_t pass = 0; pass < kPasses; ++pass) {
                   out.emplace_back(device, values);
                   dx.emplace_back(device, values);
                   d_up.emplace_back(device, weights);
                 }
                 // The first pass leaves NaN in all windows, up to the last token's row.
                 x.emplace_back(device, values);
                 x.back().upload(std::vector<bf16>(values, to_bf16(kNan)), layer.stream());
                 layer.barrier();
                 layer.load(x.back(), residual);
                 layer.forward();
                 layer.vjp();
                 const auto keep = [&](const gpu::Buffer<float>& to, const float* from) {
                   if (to.size() > 0)
                     gpu::copy_async(to.data(), from, to.size_bytes(), layer.stream());
                 };
                 for (std::size_t pass = 0; pass < kPasses; ++pass) {
                   layer.load(x[pass % 3], residual);
                   layer.forward();
                   keep(out[pass], args.residual);
                   if (pass % 4 == 3) continue;  // an evaluation
                   layer.vjp();
                   keep(dx[pass], args.dx);
                   keep(d_up[pass], args.d_up);
                 }
                 layer.synchronize();
                 layer.barrier();
                 for (std::size_t pass = 0; pass < kPasses; ++pass) {
                   const RankOutputs& expected = want[pass % 3][me];
                   const auto same = [&](const gpu::Buffer<float>& got,
                                         const std::vector<float>& should, const char* name) {
                     const std::string wrong =
                         testing::first_bit_difference(got.download(layer.stream()), should);
                     if (!wrong.empty())
                       throw std::runtime_error(concat("pass ", pass, ", ", name, ": ", wrong));
                   };
                   same(out[pass], expected.out, "residual");
                   if (pass % 4 == 3) continue;
                   same(dx[pass], expected.dx, "dx");
                   same(d_up[pass], expected.d_up, "d_up");
                 }
                 layer.barrier();
               }),
      "");
}

INSTANTIATE_TEST_SUITE_P(, InARow, ::testing::Values(Exchange::kPadded, Exchange::kCounted),
                         [](const auto& instance) {
                           return instance.param == Exchange::kPadded ? "Padded" : "Counted";
                         });

// A forward pass without VJP (evaluation) may follow any other; the pass that counts comes last.
TEST(Passes, ForwardAloneMayBeRepeated) {
  RUNGS_NEEDS_DEVICE();
  const MoeInputs inputs = make_inputs(of({33, 5}, falling(kExperts, 0.4f)), 3);
  const auto want = run_layer(inputs, {.exchange = Exchange::kCounted});
  EXPECT_EQ(in_ranks(inputs, {.exchange = Exchange::kCounted},
                     [&](int rank, RankLayer& layer) {
                       for (int i = 0; i < 5; ++i) layer.forward();
                       layer.vjp();
                       layer.forward();
                       layer.synchronize();
                       layer.barrier();
                       layer.reset();
                       layer.barrier();
                       layer.forward();
                       layer.vjp();
                       layer.synchronize();
                       layer.barrier();
                       const RankOutputs got = layer.outputs();
                       const RankOutputs& first = want[static_cast<std::size_t>(rank)];
                       if (got.out != first.out || got.dx != first.dx || got.d_up != first.d_up)
                         throw std::runtime_error("other bits than a first pass");
                       layer.barrier();
                     }),
            "");
}

}  // namespace
}  // namespace rungs::moe

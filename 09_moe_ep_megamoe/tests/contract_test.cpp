/// What the contract refuses, in which words.

#include <rungs/testing/errors.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "support.hpp"
#include "world.hpp"

namespace rungs::moe {
namespace {

using testing::error_of;
using testing::has;

// The arguments of a layer that is all right, on one rank.
struct Operands {
  Operands() {
    const Shape shape{.width = 64, .hidden = 64, .experts = 4, .top_k = 2, .max_tokens = 8};
    args = {.shape = shape,
            .tokens = 8,
            .x = x.data(),
            .router = f32.data(),
            .up = weights.data(),
            .down = weights.data(),
            .residual = f32.data(),
            .balance = f32.data(),
            .d_residual = f32.data(),
            .dx = f32.data(),
            .d_router = f32.data(),
            .d_up = f32.data(),
            .d_down = f32.data()};
  }
  gpu::Buffer<bf16> x{device(), 8 * 64}, weights{device(), 4 * 64 * 64};
  gpu::Buffer<float> f32{device(), 4 * 64 * 64};
  LayerArgs args;
};

std::string refusal(const std::function<void(LayerArgs&)>& change,
                    Exchange exchange = Exchange::kLocal) {
  Operands operands;
  change(operands.args);
  return error_of([&] { Layer(operands.args, exchange, device()); });
}

TEST(Contract, BadShapesAreNamedWithTheirValue) {
  RUNGS_NEEDS_DEVICE();
  EXPECT_EQ(refusal([](LayerArgs&) {}), "nothing");
  EXPECT_TRUE(has(refusal([](LayerArgs& a) { a.shape.width = 72; }),
                  "shape.width must be a positive multiple of 64, got 72"));
  EXPECT_TRUE(has(refusal([](LayerArgs& a) { a.shape.hidden = 0; }),
                  "shape.hidden must be a positive multiple of 64, got 0"));
  EXPECT_TRUE(has(refusal([](LayerArgs& a) { a.shape.experts = 65; }),
                  "shape.experts must be from 1 to 64, got 65"));
  EXPECT_TRUE(has(refusal([](LayerArgs& a) { a.shape.top_k = 5; }),
                  "shape.top_k must be from 1 to the 4 experts, got 5"));
  EXPECT_TRUE(has(refusal([](LayerArgs& a) { a.shape.max_tokens = 0; }),
                  "shape.max_tokens must be at least 1, got 0"));
  EXPECT_TRUE(has(refusal([](LayerArgs& a) { a.tokens = 9; }),
                  "tokens must be from 0 to shape.max_tokens = 8, got 9"));
  EXPECT_TRUE(has(refusal([](LayerArgs& a) { a.tokens = -1; }), "got -1"));
  EXPECT_TRUE(
      has(refusal([](LayerArgs& a) { a.aux_weight = std::numeric_limits<float>::quiet_NaN(); }),
          "aux_weight is not finite"));
}

TEST(Contract, NullPointersAreNamed) {
  RUNGS_NEEDS_DEVICE();
  EXPECT_TRUE(has(refusal([](LayerArgs& a) { a.x = nullptr; }), "x is null"));
  EXPECT_TRUE(has(refusal([](LayerArgs& a) { a.router = nullptr; }), "router is null"));
  EXPECT_TRUE(has(refusal([](LayerArgs& a) { a.up = nullptr; }), "up is null"));
  EXPECT_TRUE(has(refusal([](LayerArgs& a) { a.down = nullptr; }), "down is null"));
  EXPECT_TRUE(has(refusal([](LayerArgs& a) { a.residual = nullptr; }), "residual is null"));
  EXPECT_TRUE(has(refusal([](LayerArgs& a) { a.balance = nullptr; }), "balance is null"));
  EXPECT_TRUE(has(refusal([](LayerArgs& a) { a.d_residual = nullptr; }), "d_residual is null"));
  EXPECT_TRUE(has(refusal([](LayerArgs& a) { a.dx = nullptr; }), "dx is null"));
  EXPECT_TRUE(has(refusal([](LayerArgs& a) { a.d_router = nullptr; }), "d_router is null"));
  EXPECT_TRUE(has(refusal([](LayerArgs& a) { a.d_up = nullptr; }), "d_up is null"));
  EXPECT_TRUE(has(refusal([](LayerArgs& a) { a.d_down = nullptr; }), "d_down is null"));
  // A rank without tokens has none of their tensors.
  EXPECT_EQ(refusal([](LayerArgs& a) {
              a.tokens = 0;
              a.x = nullptr;
              a.residual = nullptr;
              a.d_residual = nullptr;
              a.dx = nullptr;
            }),
            "nothing");
}

TEST(Contract, EachExchangeWantsWhatItUses) {
  RUNGS_NEEDS_DEVICE();
  const auto none = [](LayerArgs&) {};
  EXPECT_TRUE(has(refusal(none, Exchange::kCounted), "a symmetric context is what kCounted needs"));
  EXPECT_TRUE(has(refusal(none, Exchange::kPadded), "a communicator is what kPadded needs"));
  EXPECT_TRUE(has(error_of([] {
                    (void)Layer::heap_bytes(
                        {.width = 64, .hidden = 64, .experts = 4, .top_k = 2, .max_tokens = 8}, 3);
                  }),
                  "shape.experts must be a multiple of the 3 ranks, got 4"));
}

TEST(Contract, ExpertsMustFitTheRanksAndTheCapacityBePositive) {
  RUNGS_NEEDS_DEVICE();
  MoeCase spec;
  spec.experts = 3;
  spec.tokens = {4, 4};
  const std::string uneven =
      in_ranks(make_inputs(spec, 1), {.exchange = Exchange::kPadded}, [](int, RankLayer&) {});
  EXPECT_TRUE(has(uneven, "shape.experts must be a multiple of the 2 ranks, got 3")) << uneven;
  spec.experts = 4;
  MoeInputs inputs = make_inputs(spec, 1);
  inputs.spec.capacity_factor = std::numeric_limits<float>::infinity();
  const std::string endless =
      in_ranks(inputs, {.exchange = Exchange::kPadded}, [](int, RankLayer&) {});
  EXPECT_TRUE(has(endless, "capacity_factor must be a positive number")) << endless;
}

}  // namespace
}  // namespace rungs::moe

/// What the header promises apart from numbers: errors that name what is wrong, masked rows, what
/// masks keep out, plans in graphs.

#include <rungs/attention/attention.hpp>
#include <rungs/core/error.hpp>
#include <rungs/gpu/buffer.hpp>
#include <rungs/gpu/graph.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/testing/compare.hpp>
#include <rungs/testing/poison.hpp>
#include <rungs/testing/random.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace rungs::attention {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Dense tensors of one call, forward and backward.
struct Call {
  gpu::Device device = gpu::Device::open(0);
  int batch = 2, queries = 64, keys = 64, heads = 2, head_dim = 32;
  bool causal = true;
  gpu::Buffer<bf16> q, k, v, o, d_o, dq, dk, dv;
  gpu::Buffer<float> lse;
  std::vector<bf16> host_q, host_k, host_v, host_do;

  Call(int tq, int tk, int depth) : queries(tq), keys(tk), head_dim(depth) {
    host_q = testing::normal_bf16(query_elements(), 1);
    host_k = testing::normal_bf16(key_elements(), 2);
    host_v = testing::normal_bf16(key_elements(), 3);
    host_do = testing::normal_bf16(query_elements(), 4);
    for (gpu::Buffer<bf16>* buffer : {&q, &o, &d_o, &dq})
      *buffer = gpu::Buffer<bf16>(device, query_elements());
    for (gpu::Buffer<bf16>* buffer : {&k, &v, &dk, &dv})
      *buffer = gpu::Buffer<bf16>(device, key_elements());
    lse = gpu::Buffer<float>(device, static_cast<std::size_t>(batch) * heads * queries);
    upload();
  }
  [[nodiscard]] std::size_t query_elements() const {
    return static_cast<std::size_t>(batch) * queries * heads * head_dim;
  }
  [[nodiscard]] std::size_t key_elements() const {
    return static_cast<std::size_t>(batch) * keys * heads * head_dim;
  }
  /// Host inputs to the device, NaN into the outputs.
  void upload() {
    q.upload(host_q);
    k.upload(host_k);
    v.upload(host_v);
    d_o.upload(host_do);
    for (const gpu::Buffer<bf16>* output : {&o, &dq, &dk, &dv}) testing::poison(*output);
    testing::poison(lse);
  }
  [[nodiscard]] ForwardArgs forward() const {
    return {tensor(q.data(), batch, queries, heads, head_dim),
            tensor(k.data(), batch, keys, heads, head_dim),
            tensor(v.data(), batch, keys, heads, head_dim),
            tensor(o.data(), batch, queries, heads, head_dim),
            tensor(lse.data(), batch, heads, queries),
            0,
            causal};
  }
  [[nodiscard]] BackwardArgs backward() const {
    BackwardArgs args;
    args.q = tensor(q.data(), batch, queries, heads, head_dim);
    args.k = tensor(k.data(), batch, keys, heads, head_dim);
    args.v = tensor(v.data(), batch, keys, heads, head_dim);
    args.o = tensor(o.data(), batch, queries, heads, head_dim);
    args.d_o = tensor(d_o.data(), batch, queries, heads, head_dim);
    args.lse = tensor(lse.data(), batch, heads, queries);
    args.dq = tensor(dq.data(), batch, queries, heads, head_dim);
    args.dk = tensor(dk.data(), batch, keys, heads, head_dim);
    args.dv = tensor(dv.data(), batch, keys, heads, head_dim);
    args.causal = causal;
    return args;
  }
  /// Both passes with the rungs of one index.
  void run(std::size_t rung) const {
    const gpu::Stream stream(device);
    const auto first = kForwardLadder.at(rung).prepare(forward(), {&device, 1});
    const auto second = kBackwardLadder.at(rung).prepare(backward(), {&device, 1});
    (*first)(stream);
    (*second)(stream);
    stream.synchronize();
  }
};

template <class Plan, class Args>
std::string error_of(const Args& args, const gpu::Device& device,
                     ErrorCode code = ErrorCode::kInvalidArgument) {
  try {
    const Plan plan(args, device);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.message();
    return error.message();
  }
  return "no error";
}

void expect_parts(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
}

TEST(AttentionContract, ForwardErrorsNameTensorDimensionAndValue) {
  const Call call(8, 8, 32);
  struct Mistake {
    std::function<void(ForwardArgs&)> make;
    std::vector<std::string> parts;
  };
  const std::vector<Mistake> mistakes{
      {[](ForwardArgs& a) { a.q.dtype = DType::kF32; }, {"attention forward: q", "f32", "bf16"}},
      {[](ForwardArgs& a) { a.v.data = nullptr; }, {"v is a null pointer"}},
      {[](ForwardArgs& a) { a.k.data = static_cast<const char*>(a.k.data) + 1; },
       {"k at address", "2 bytes"}},
      {[](ForwardArgs& a) { a.o.shape[1] = 0; }, {"o has extent 0", "dimension 1 (sequence)"}},
      {[](ForwardArgs& a) { a.q.strides[0] = 0; },
       {"q has stride 0", "dimension 0 (batch, extent 2)"}},
      {[](ForwardArgs& a) { a.k.strides[1] = -64; }, {"k has stride -64", "dimension 1 (sequence"}},
      {[](ForwardArgs& a) { a.v.strides[3] = 2; },
       {"v has stride 2", "dimension 3 (head_dim)", "must be 1"}},
      {[](ForwardArgs& a) { a.v.strides[0] = std::int64_t{1} << 60; },
       {"v has stride 1152921504606846976", "dimension 0 (batch, extent 2)", "beyond any memory"}},
      {[](ForwardArgs& a) { a.k.shape[2] = 1; },
       {"k has extent 1 in dimension 2 (heads)", "q has 2"}},
      {[](ForwardArgs& a) { a.k.shape[3] = 16; },
       {"k has extent 16 in dimension 3 (head_dim)", "q has 32"}},
      {[](ForwardArgs& a) { a.v.shape[1] = 7; },
       {"v has extent 7 in dimension 1 (sequence)", "k has 8"}},
      {[](ForwardArgs& a) { a.o.shape[1] = 7; },
       {"o has extent 7 in dimension 1 (sequence)", "q has 8"}},
      {[](ForwardArgs& a) { a.q.shape[3] = 257; }, {"q has head_dim 257", "256"}},
      {[](ForwardArgs& a) { a.o.strides[2] = 16; },
       {"o is written", "strides [512, 64, 16, 1]", "one address"}},
      {[](ForwardArgs& a) { a.o.data = const_cast<void*>(a.q.data); }, {"o (at", "overlaps q"}},
      {[](ForwardArgs& a) { a.lse.data = static_cast<char*>(a.o.data) + 64; },
       {"o (at", "overlaps lse"}},
      {[](ForwardArgs& a) { a.lse.dtype = DType::kBf16; }, {"lse has dtype bf16", "f32"}},
      {[](ForwardArgs& a) { a.lse.data = nullptr; }, {"lse is a null pointer"}},
      {[](ForwardArgs& a) { a.lse.data = static_cast<char*>(a.lse.data) + 2; },
       {"lse at address", "4 bytes"}},
      {[](ForwardArgs& a) {
         a.lse.shape = {2, 8, 2};
       },
       {"lse has extent 8 in dimension 1 (heads)", "asks for 2"}},
      {[](ForwardArgs& a) { a.lse.strides[1] = 9; },
       {"lse has stride 9 in dimension 1 (heads)", "that is 8"}},
      {[](ForwardArgs& a) { a.scale = kNan; }, {"scale is nan", "finite"}},
      {[](ForwardArgs& a) { a.scale = std::numeric_limits<float>::infinity(); },
       {"scale is inf", "finite"}},
  };
  for (const Mistake& mistake : mistakes) {
    ForwardArgs args = call.forward();
    mistake.make(args);
    expect_parts(error_of<ForwardPlan>(args, call.device), mistake.parts);
  }
  EXPECT_EQ(error_of<ForwardPlan>(call.forward(), call.device), "no error");
}

TEST(AttentionContract, BackwardErrorsNameTensorDimensionAndValue) {
  const Call call(8, 6, 32);
  struct Mistake {
    std::function<void(BackwardArgs&)> make;
    std::vector<std::string> parts;
  };
  const std::vector<Mistake> mistakes{
      {[](BackwardArgs& a) { a.d_o.dtype = DType::kF16; },
       {"attention backward: d_o", "f16", "bf16"}},
      {[](BackwardArgs& a) { a.dk.data = nullptr; }, {"dk is a null pointer"}},
      {[](BackwardArgs& a) { a.d_o.shape[1] = 6; },
       {"d_o has extent 6 in dimension 1 (sequence)", "q has 8"}},
      {[](BackwardArgs& a) { a.dv.shape[1] = 8; },
       {"dv has extent 8 in dimension 1 (sequence)", "k has 6"}},
      {[](BackwardArgs& a) { a.dq.strides[1] = 32; }, {"dq is written", "one address"}},
      {[](BackwardArgs& a) { a.dv.data = a.dk.data; }, {"dv (at", "overlaps dk"}},
      {[](BackwardArgs& a) { a.dq.data = const_cast<void*>(a.d_o.data); },
       {"dq (at", "overlaps d_o"}},
      {[](BackwardArgs& a) { a.lse.data = a.dq.data; }, {"dq (at", "overlaps lse"}},
      {[](BackwardArgs& a) { a.lse.shape[2] = 6; },
       {"lse has extent 6 in dimension 2 (query)", "asks for 8"}},
      {[](BackwardArgs& a) { a.scale = -std::numeric_limits<float>::infinity(); },
       {"scale is -inf"}},
  };
  for (const Mistake& mistake : mistakes) {
    BackwardArgs args = call.backward();
    mistake.make(args);
    expect_parts(error_of<BackwardPlan>(args, call.device), mistake.parts);
  }
  EXPECT_EQ(error_of<BackwardPlan>(call.backward(), call.device), "no error");
}

TEST(AttentionContract, PlansTakeTheFastestRungAndRungsRefuseWithTheirReason) {
  const Call common(8, 8, 64);
  const Call odd(8, 8, 40);
  EXPECT_EQ(ForwardPlan(common.forward(), common.device).rung(), "tiled");
  EXPECT_EQ(BackwardPlan(common.backward(), common.device).rung(), "tiled");
  EXPECT_EQ(ForwardPlan(odd.forward(), odd.device).rung(), "materialised");
  EXPECT_EQ(BackwardPlan(odd.backward(), odd.device).rung(), "materialised");
  const ladder::Machine machine{&odd.device, 1};
  try {
    static_cast<void>(kForwardLadder[1].prepare(odd.forward(), machine));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    expect_parts(error.message(), {"head_dim 16, 32, 64 and 128"});
  }
}

/// Two million queries and keys: S has 2^42 elements, and head_dim 40 is not tiled. Nothing is
/// read.
TEST(AttentionContract, AWorkspaceBeyondReasonIsRefused) {
  const gpu::Device device = gpu::Device::open(0);
  constexpr std::int64_t kLong = std::int64_t{1} << 21;
  const auto at = [](std::uintptr_t address) { return reinterpret_cast<bf16*>(address << 40); };
  ForwardArgs args;
  args.q = tensor(at(1), 1, kLong, 1, 40);
  args.k = tensor(at(2), 1, kLong, 1, 40);
  args.v = tensor(at(3), 1, kLong, 1, 40);
  args.o = tensor(at(4), 1, kLong, 1, 40);
  args.lse = tensor(reinterpret_cast<float*>(at(5)), 1, 1, kLong);
  expect_parts(error_of<ForwardPlan>(args, device, ErrorCode::kUnsupported),
               {"no rung takes this call", "head_dim 16, 32, 64 and 128", "terabytes"});
}

/// dq, dk and dv as slices of one packed gradient, and o beside them: legal, although address
/// ranges meet.
TEST(AttentionContract, SlicesOfOnePackedTensorDoNotOverlap) {
  const Call call(8, 8, 32);
  const gpu::Buffer<bf16> packed(call.device, 3 * call.query_elements());
  const std::int64_t token = 3 * 2 * 32;
  BackwardArgs args = call.backward();
  int slot = 0;
  for (Tensor<4>* view : {&args.dq, &args.dk, &args.dv}) {
    view->data = packed.data() + slot++ * 2 * 32;
    view->strides = {8 * token, token, 32, 1};
  }
  EXPECT_EQ(error_of<BackwardPlan>(args, call.device), "no error");
  args.dv.data = packed.data() + 31;
  expect_parts(error_of<BackwardPlan>(args, call.device), {"dv (at", "overlaps dq"});
}

/// More queries than keys under a causal mask: the first rows see nothing. Their inputs are NaN and
/// must not matter.
TEST(AttentionContract, RowsWithoutKeysAreZeroAndReachNothing) {
  for (std::size_t rung = 0; rung < kForwardLadder.size(); ++rung) {
    Call call(70, 6, 32);
    const int blind = call.queries - call.keys;
    const std::size_t row = static_cast<std::size_t>(call.heads) * call.head_dim;
    call.run(rung);
    const std::vector<bf16> dk = call.dk.download();
    const std::vector<bf16> dv = call.dv.download();
    for (std::size_t b = 0; b < 2; ++b) {
      for (std::size_t e = 0; e < blind * row; ++e) {
        call.host_q[b * call.queries * row + e] = to_bf16(kNan);
        call.host_do[b * call.queries * row + e] = to_bf16(kNan);
      }
    }
    call.upload();
    call.run(rung);
    const std::vector<bf16> o = call.o.download();
    const std::vector<bf16> dq = call.dq.download();
    const std::vector<float> lse = call.lse.download();
    for (std::size_t e = 0; e < o.size(); ++e) {
      if (e / row % call.queries >= static_cast<std::size_t>(blind)) continue;
      ASSERT_EQ(to_float(o[e]), 0.0f) << "o, element " << e << ", rung " << rung;
      ASSERT_EQ(to_float(dq[e]), 0.0f) << "dq, element " << e << ", rung " << rung;
    }
    for (std::size_t r = 0; r < lse.size(); ++r) {
      ASSERT_EQ(std::isinf(lse[r]) && lse[r] < 0,
                r % call.queries < static_cast<std::size_t>(blind))
          << r;
      ASSERT_FALSE(std::isnan(lse[r])) << r;
    }
    EXPECT_EQ(testing::first_bit_difference(call.dk.download(), dk), "") << rung;
    EXPECT_EQ(testing::first_bit_difference(call.dv.download(), dv), "") << rung;
  }
}

/// A NaN in the last key and value, and in the first query's gradient: only who may see it has it.
TEST(AttentionContract, MaskedElementsHaveNoInfluenceNotEvenNaN) {
  for (std::size_t rung = 0; rung < kForwardLadder.size(); ++rung) {
    Call call(37, 37, 64);
    const std::size_t row = static_cast<std::size_t>(call.heads) * call.head_dim;
    call.run(rung);
    const std::vector<bf16> o = call.o.download();
    const std::vector<bf16> dq = call.dq.download();
    for (std::size_t b = 0; b < 2; ++b) {
      for (std::size_t e = 0; e < row; ++e) {
        call.host_k[(b * 37 + 36) * row + e] = to_bf16(kNan);
        call.host_v[(b * 37 + 36) * row + e] = to_bf16(kNan);
        call.host_do[b * 37 * row + e] = to_bf16(kNan);
      }
    }
    call.upload();
    call.run(rung);
    const std::vector<bf16> new_o = call.o.download();
    const std::vector<bf16> new_dq = call.dq.download();
    const std::vector<bf16> new_dk = call.dk.download();
    const std::vector<bf16> new_dv = call.dv.download();
    for (std::size_t e = 0; e < o.size(); ++e) {
      const std::size_t token = e / row % 37;
      if (token < 36) {
        ASSERT_EQ(new_o[e].bits, o[e].bits) << "o, token " << token << ", rung " << rung;
      } else {
        ASSERT_TRUE(std::isnan(to_float(new_o[e]))) << "o, token " << token << ", rung " << rung;
      }
      if (token == 0 || token == 36) {
        ASSERT_TRUE(std::isnan(to_float(new_dq[e]))) << "dq, token " << token << ", rung " << rung;
      } else {
        ASSERT_EQ(new_dq[e].bits, dq[e].bits) << "dq, token " << token << ", rung " << rung;
      }
      if (token == 0) {  // seen by every query, the poisoned first and last included
        ASSERT_TRUE(std::isnan(to_float(new_dk[e]))) << "dk, rung " << rung;
        ASSERT_TRUE(std::isnan(to_float(new_dv[e]))) << "dv, rung " << rung;
      }
    }
  }
}

/// Every output element is written, whatever was there.
TEST(AttentionContract, NoOutputElementKeepsItsPoison) {
  for (std::size_t rung = 0; rung < kForwardLadder.size(); ++rung) {
    for (const auto& [queries, keys] : {std::pair{65, 33}, std::pair{33, 65}}) {
      const Call call(queries, keys, 128);
      call.run(rung);
      for (const gpu::Buffer<bf16>* output : {&call.o, &call.dq, &call.dk, &call.dv}) {
        EXPECT_EQ(testing::first_unwritten(output->download()), output->size()) << rung;
      }
      EXPECT_EQ(testing::first_unwritten(call.lse.download()), call.lse.size()) << rung;
    }
  }
}

/// Both passes in one graph, replayed on new inputs at the same addresses: the bits of an eager
/// run.
TEST(AttentionContract, GraphReplaysFollowTheInputs) {
  for (std::size_t rung = 0; rung < kForwardLadder.size(); ++rung) {
    Call call(48, 80, 32);
    const auto forward = kForwardLadder.at(rung).prepare(call.forward(), {&call.device, 1});
    const auto backward = kBackwardLadder.at(rung).prepare(call.backward(), {&call.device, 1});
    const gpu::Stream stream(call.device);
    const gpu::Graph graph = gpu::Graph::capture(stream, [&] {
      (*forward)(stream);
      (*backward)(stream);
    });
    EXPECT_EQ(testing::first_unwritten(call.o.download()), 0u) << "capturing must not run anything";
    for (const std::uint64_t seed : {21, 22}) {
      call.host_q = testing::normal_bf16(call.query_elements(), seed);
      call.host_v = testing::normal_bf16(call.key_elements(), seed + 10);
      call.upload();
      call.run(rung);
      const std::vector<std::vector<bf16>> eager{call.o.download(), call.dq.download(),
                                                 call.dk.download(), call.dv.download()};
      const std::vector<float> lse = call.lse.download();
      call.upload();
      graph.replay(stream);
      stream.synchronize();
      EXPECT_EQ(testing::first_bit_difference(call.o.download(), eager[0]), "") << rung;
      EXPECT_EQ(testing::first_bit_difference(call.dq.download(), eager[1]), "") << rung;
      EXPECT_EQ(testing::first_bit_difference(call.dk.download(), eager[2]), "") << rung;
      EXPECT_EQ(testing::first_bit_difference(call.dv.download(), eager[3]), "") << rung;
      EXPECT_EQ(testing::first_bit_difference(call.lse.download(), lse), "") << rung;
    }
  }
}

}  // namespace
}  // namespace rungs::attention

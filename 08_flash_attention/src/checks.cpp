#include "detail/overlap.hpp"
#include "detail/prepare.hpp"

#include <rungs/core/error.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rungs::attention::detail {
namespace {

constexpr std::array<std::string_view, 4> kDimensions{"batch", "sequence", "heads", "head_dim"};
// Of one dimension: index sums stay within 32 bits.
constexpr std::int64_t kLongest = std::int64_t{1} << 30;
// Elements a tensor may span: more than any address space holds, and no address sum overflows.
constexpr std::int64_t kWidest = std::int64_t{1} << 50;

/// A tensor of the call with the name messages use.
struct Named {
  std::string_view name;
  ConstTensor<4> view;
  bool written;
};

std::string shape_of(const ConstTensor<4>& view) {
  return concat("[", view.shape[0], ", ", view.shape[1], ", ", view.shape[2], ", ", view.shape[3],
                "]");
}

Footprint footprint_of(const ConstTensor<4>& view) {
  Footprint result{
      reinterpret_cast<std::uintptr_t>(view.data), static_cast<std::int64_t>(sizeof(bf16)), {}, {}};
  for (std::size_t i = 0; i < kDimensions.size(); ++i) {
    result.extents.push_back(view.shape[i]);
    result.strides.push_back(view.strides[i] * static_cast<std::int64_t>(sizeof(bf16)));
  }
  return result;
}

Footprint footprint_of(const ConstTensor<3>& lse) {
  return {reinterpret_cast<std::uintptr_t>(lse.data),
          static_cast<std::int64_t>(sizeof(float)),
          {lse.count()},
          {static_cast<std::int64_t>(sizeof(float))}};
}

/// dtype, address, extents and strides of one [B, T, H, D] tensor by itself.
void check_tensor(std::string_view call, const Named& tensor) {
  const std::string_view name = tensor.name;
  const ConstTensor<4>& view = tensor.view;
  RUNGS_REQUIRE(view.dtype == DType::kBf16, call, ": ", name, " has dtype ", to_string(view.dtype),
                "; convert it to bf16");
  RUNGS_REQUIRE(view.data != nullptr, call, ": ", name, " is a null pointer; pass device memory");
  RUNGS_REQUIRE(reinterpret_cast<std::uintptr_t>(view.data) % sizeof(bf16) == 0, call, ": ", name,
                " at address ", view.data, " is not aligned to its elements' 2 bytes");
  for (std::size_t i = 0; i < kDimensions.size(); ++i) {
    RUNGS_REQUIRE(view.shape[i] >= 1 && view.shape[i] <= kLongest, call, ": ", name, " has extent ",
                  view.shape[i], " in dimension ", i, " (", kDimensions[i],
                  "); it must be between 1 and 2^30");
    RUNGS_REQUIRE(view.shape[i] == 1 || view.strides[i] >= 1, call, ": ", name, " has stride ",
                  view.strides[i], " in dimension ", i, " (", kDimensions[i], ", extent ",
                  view.shape[i],
                  "); strides must be at least 1: copy broadcast or reversed tensors first");
    RUNGS_REQUIRE(view.strides[i] <= kWidest / view.shape[i], call, ": ", name, " has stride ",
                  view.strides[i], " in dimension ", i, " (", kDimensions[i], ", extent ",
                  view.shape[i], "), which leads beyond any memory");
  }
  RUNGS_REQUIRE(view.shape[3] <= 256, call, ": ", name, " has head_dim ", view.shape[3],
                "; at most 256 is supported");
  RUNGS_REQUIRE(view.shape[3] == 1 || view.strides[3] == 1, call, ": ", name, " has stride ",
                view.strides[3],
                " in dimension 3 (head_dim); it must be 1: make the rows contiguous");
}

void check_same_shape(std::string_view call, const Named& tensor, const Named& model) {
  for (std::size_t i = 0; i < kDimensions.size(); ++i) {
    RUNGS_REQUIRE(tensor.view.shape[i] == model.view.shape[i], call, ": ", tensor.name,
                  " has extent ", tensor.view.shape[i], " in dimension ", i, " (", kDimensions[i],
                  ") but ", model.name, " has ", model.view.shape[i], "; shapes are ",
                  shape_of(tensor.view), " and ", shape_of(model.view));
  }
}

void check_lse(std::string_view call, const ConstTensor<3>& lse, const ConstTensor<4>& q) {
  RUNGS_REQUIRE(lse.dtype == DType::kF32, call, ": lse has dtype ", to_string(lse.dtype),
                "; it must be f32");
  RUNGS_REQUIRE(lse.data != nullptr, call,
                ": lse is a null pointer; pass device memory for B*H*Tq floats");
  RUNGS_REQUIRE(reinterpret_cast<std::uintptr_t>(lse.data) % sizeof(float) == 0, call,
                ": lse at address ", lse.data, " is not aligned to its elements' 4 bytes");
  const std::array<std::int64_t, 3> expected{q.shape[0], q.shape[2], q.shape[1]};
  const std::array<std::int64_t, 3> dense = row_major(expected);
  constexpr std::array<std::string_view, 3> kNames{"batch", "heads", "query"};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    RUNGS_REQUIRE(lse.shape[i] == expected[i], call, ": lse has extent ", lse.shape[i],
                  " in dimension ", i, " (", kNames[i], "); q asks for ", expected[i],
                  " (lse is [batch, heads, query])");
    RUNGS_REQUIRE(lse.shape[i] == 1 || lse.strides[i] == dense[i], call, ": lse has stride ",
                  lse.strides[i], " in dimension ", i, " (", kNames[i],
                  "); it must be dense, that is ", dense[i]);
  }
}

/// No written tensor may share memory with any other tensor of the call, nor its elements with each
/// other.
void check_overlaps(std::string_view call, const std::vector<Named>& tensors,
                    const ConstTensor<3>& lse, bool lse_written) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const ConstTensor<4>& view = tensors[i].view;
    const Footprint mine = footprint_of(view);
    RUNGS_REQUIRE(!tensors[i].written || !may_overlap_itself(mine), call, ": ", tensors[i].name,
                  " is written, but its strides [", view.strides[0], ", ", view.strides[1], ", ",
                  view.strides[2], ", ", view.strides[3], "] put different elements of shape ",
                  shape_of(view), " at one address");
    for (std::size_t j = 0; j < i; ++j) {
      if (!tensors[i].written && !tensors[j].written) continue;
      RUNGS_REQUIRE(!may_overlap(mine, footprint_of(tensors[j].view)), call, ": ", tensors[i].name,
                    " (at ", view.data, ") overlaps ", tensors[j].name, " (at ",
                    tensors[j].view.data,
                    "); outputs need memory of their own (slices of one packed tensor must have "
                    "equal strides)");
    }
    if (!tensors[i].written && !lse_written) continue;
    RUNGS_REQUIRE(!may_overlap(mine, footprint_of(lse)), call, ": ", tensors[i].name, " (at ",
                  view.data, ") overlaps lse (at ", lse.data,
                  "); outputs need memory of their own");
  }
}

template <class T>
Rows<T> rows_of(const ConstTensor<4>& view) {
  constexpr std::int64_t kElements = 8;  // of a 16-byte vector
  bool vectors =
      reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 && view.shape[3] % kElements == 0;
  for (std::size_t i = 0; i < 3; ++i)
    vectors = vectors && (view.shape[i] == 1 || view.strides[i] % kElements == 0);
  return {static_cast<T*>(const_cast<void*>(view.data)), view.strides[0], view.strides[1],
          view.strides[2], vectors};
}

Shape shape_of_call(std::string_view call, const ConstTensor<4>& q, const ConstTensor<4>& k,
                    float scale, bool causal) {
  RUNGS_REQUIRE(std::isfinite(scale), call, ": scale is ", scale,
                "; it must be finite (0 means 1/sqrt(head_dim))");
  const std::int64_t longer = q.shape[1] > k.shape[1] ? q.shape[1] : k.shape[1];
  RUNGS_REQUIRE(q.shape[0] * q.shape[2] <= kLongest &&
                    q.shape[0] * q.shape[2] * ((longer + 63) / 64) <= kLongest,
                call, ": batch ", q.shape[0], " x heads ", q.shape[2], " x sequence ", longer,
                "/64 is above the 2^30 blocks of one launch; split the batch");
  const float chosen =
      scale != 0.0f ? scale : static_cast<float>(1.0 / std::sqrt(static_cast<double>(q.shape[3])));
  return {static_cast<std::int32_t>(q.shape[0]),
          static_cast<std::int32_t>(q.shape[2]),
          static_cast<std::int32_t>(q.shape[1]),
          static_cast<std::int32_t>(k.shape[1]),
          static_cast<std::int32_t>(q.shape[3]),
          chosen,
          causal};
}

/// q against k and v: all but the sequence must agree, and k and v in everything.
void check_qkv(std::string_view call, const Named& q, const Named& k, const Named& v) {
  Named q_as_long_as_k = q;
  q_as_long_as_k.view.shape[1] = k.view.shape[1];
  check_same_shape(call, k, q_as_long_as_k);
  check_same_shape(call, v, k);
}

}  // namespace

ForwardParams check_forward(const ForwardArgs& args) {
  constexpr std::string_view kCall = "attention forward";
  const std::vector<Named> tensors{
      {"q", args.q, false}, {"k", args.k, false}, {"v", args.v, false}, {"o", args.o, true}};
  for (const Named& tensor : tensors) check_tensor(kCall, tensor);
  check_qkv(kCall, tensors[0], tensors[1], tensors[2]);
  check_same_shape(kCall, tensors[3], tensors[0]);
  check_lse(kCall, args.lse, args.q);
  check_overlaps(kCall, tensors, args.lse, true);
  return {shape_of_call(kCall, args.q, args.k, args.scale, args.causal),
          rows_of<const bf16>(args.q),
          rows_of<const bf16>(args.k),
          rows_of<const bf16>(args.v),
          rows_of<bf16>(args.o),
          args.lse.as<float>()};
}

BackwardParams check_backward(const BackwardArgs& args) {
  constexpr std::string_view kCall = "attention backward";
  const std::vector<Named> tensors{{"q", args.q, false},     {"k", args.k, false},
                                   {"v", args.v, false},     {"o", args.o, false},
                                   {"d_o", args.d_o, false}, {"dq", args.dq, true},
                                   {"dk", args.dk, true},    {"dv", args.dv, true}};
  for (const Named& tensor : tensors) check_tensor(kCall, tensor);
  check_qkv(kCall, tensors[0], tensors[1], tensors[2]);
  for (const std::size_t like_q : {3, 4, 5}) check_same_shape(kCall, tensors[like_q], tensors[0]);
  for (const std::size_t like_k : {6, 7}) check_same_shape(kCall, tensors[like_k], tensors[1]);
  check_lse(kCall, args.lse, args.q);
  check_overlaps(kCall, tensors, args.lse, false);
  return {shape_of_call(kCall, args.q, args.k, args.scale, args.causal),
          rows_of<const bf16>(args.q),
          rows_of<const bf16>(args.k),
          rows_of<const bf16>(args.v),
          rows_of<const bf16>(args.o),
          rows_of<const bf16>(args.d_o),
          args.lse.as<float>(),
          nullptr,
          rows_of<bf16>(args.dq),
          rows_of<bf16>(args.dk),
          rows_of<bf16>(args.dv)};
}

void require_support(const ladder::Support& support) {
  if (!support.ok) RUNGS_THROW(kUnsupported, "attention: ", support.reason);
}

}  // namespace rungs::attention::detail

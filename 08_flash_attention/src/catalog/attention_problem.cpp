#include "catalog/attention_problem.hpp"

#include "catalog/bounds.hpp"

#include <rungs/core/error.hpp>
#include <rungs/gpu/stream.hpp>
#include <rungs/testing/random.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace rungs::attention {
namespace {

std::vector<TokenBuffer> buffers_of(const ProblemShape& shape, const gpu::Device& device) {
  std::vector<TokenBuffer> buffers;
  if (shape.packed) {
    RUNGS_REQUIRE(shape.queries == shape.keys, "a packed problem needs as many queries as keys");
    buffers.emplace_back(shape, shape.queries, 3, device);
  } else {
    for (const int sequence : {shape.queries, shape.keys, shape.keys})
      buffers.emplace_back(shape, sequence, 1, device);
  }
  return buffers;
}

/// View `index` of three: slots of one buffer, or buffers.
Tensor<4> view_of(const std::vector<TokenBuffer>& buffers, int index) {
  return buffers.size() == 1 ? buffers[0].view(index)
                             : buffers[static_cast<std::size_t>(index)].view(0);
}

void append(std::vector<float>& to, const std::vector<bf16>& from) {
  for (const bf16 value : from) to.push_back(to_float(value));
}

std::string indices(std::size_t element, std::initializer_list<std::size_t> inner_extents) {
  std::string text = "]";
  for (auto extent = std::rbegin(inner_extents); extent != std::rend(inner_extents); ++extent) {
    text = concat(", ", element % *extent, text);
    element /= *extent;
  }
  return concat("[", element, text);
}

std::string describe_tensor(const char* name, std::size_t element, int sequence,
                            const ProblemShape& shape) {
  return concat(
      name,
      indices(element, {static_cast<std::size_t>(sequence), static_cast<std::size_t>(shape.heads),
                        static_cast<std::size_t>(shape.head_dim)}),
      " of ", to_string(shape));
}

}  // namespace

std::string to_string(const ProblemShape& shape) {
  std::string text = concat("B", shape.batch, " H", shape.heads);
  text += shape.queries == shape.keys ? concat(" T", shape.queries)
                                      : concat(" Tq", shape.queries, " Tk", shape.keys);
  text += concat(" D", shape.head_dim, shape.causal ? " causal" : " full");
  if (shape.scale != 0) text += concat(" scale ", shape.scale);
  if (shape.packed) text += " packed";
  if (shape.pad != 0) text += concat(" pad ", shape.pad);
  if (shape.offset != 0) text += concat(" offset ", shape.offset);
  return text;
}

double visible_scores(const ProblemShape& shape) {
  double scores = 0;
  for (int i = 0; i < shape.queries; ++i) {
    scores += shape.causal ? std::max(0, i + 1 + shape.keys - shape.queries) : shape.keys;
  }
  return scores * shape.batch * shape.heads;
}

TokenBuffer::TokenBuffer(const ProblemShape& shape, int sequence, int slots,
                         const gpu::Device& device)
    : tokens_(static_cast<std::size_t>(shape.batch) * static_cast<std::size_t>(sequence)),
      elements_(static_cast<std::size_t>(shape.heads) * static_cast<std::size_t>(shape.head_dim)),
      pitch_(elements_ * static_cast<std::size_t>(slots) + static_cast<std::size_t>(shape.pad)),
      offset_(static_cast<std::size_t>(shape.offset)),
      slots_(slots),
      extents_{shape.batch, sequence, shape.heads, shape.head_dim},
      buffer_(device, tokens_ * pitch_ + offset_) {}

Tensor<4> TokenBuffer::view(int slot) const {
  const auto pitch = static_cast<std::int64_t>(pitch_);
  return {buffer_.data() + position(slot, 0),
          DType::kBf16,
          extents_,
          {extents_[1] * pitch, pitch, extents_[3], 1}};
}

std::size_t TokenBuffer::position(int slot, std::size_t token) const {
  return offset_ + token * pitch_ + static_cast<std::size_t>(slot) * elements_;
}

void TokenBuffer::upload(const std::vector<std::vector<bf16>>& dense) const {
  std::vector<bf16> all(buffer_.size(), bf16{0xffff});
  for (int slot = 0; slot < slots_; ++slot) {
    const std::vector<bf16>& values = dense.at(static_cast<std::size_t>(slot));
    for (std::size_t token = 0; token < tokens_; ++token) {
      std::copy_n(values.data() + token * elements_, elements_, all.data() + position(slot, token));
    }
  }
  buffer_.upload(all);
}

std::vector<bf16> TokenBuffer::download(int slot) const {
  const std::vector<bf16> all = buffer_.download();
  std::vector<bf16> dense(tokens_ * elements_);
  for (std::size_t token = 0; token < tokens_; ++token) {
    std::copy_n(all.data() + position(slot, token), elements_, dense.data() + token * elements_);
  }
  return dense;
}

std::string TokenBuffer::stray_write() const {
  if (std::string guard = buffer_.overwritten(); !guard.empty()) return guard;
  const std::vector<bf16> all = buffer_.download();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool inside =
        i >= offset_ && (i - offset_) % pitch_ < elements_ * static_cast<std::size_t>(slots_);
    if (!inside && !testing::is_poison(all[i]))
      return concat("element ", i, " between the tensors was written");
  }
  return {};
}

Inputs::Inputs(const ProblemShape& shape, const gpu::Device& device, std::uint64_t seed)
    : shape_(shape),
      buffers_(buffers_of(shape, device)) {
  oracle_shape_ = {static_cast<std::size_t>(shape.replicated ? 1 : shape.batch),
                   static_cast<std::size_t>(shape.queries),
                   static_cast<std::size_t>(shape.keys),
                   static_cast<std::size_t>(shape.replicated ? 1 : shape.heads),
                   static_cast<std::size_t>(shape.head_dim),
                   shape.scale,
                   shape.causal};
  const std::vector<bf16> q = testing::normal_bf16(oracle_elements(shape.queries), 4 * seed);
  const std::vector<bf16> k = testing::normal_bf16(oracle_elements(shape.keys), 4 * seed + 1);
  const std::vector<bf16> v = testing::normal_bf16(oracle_elements(shape.keys), 4 * seed + 2);
  exact_q_ = testing::to_double(q);
  exact_k_ = testing::to_double(k);
  exact_v_ = testing::to_double(v);
  const std::vector<std::vector<bf16>> dense{expand(q, shape.queries, Side::kScores),
                                             expand(k, shape.keys, Side::kScores),
                                             expand(v, shape.keys, Side::kValues)};
  if (shape.packed) {
    buffers_[0].upload(dense);
  } else {
    for (std::size_t i = 0; i < dense.size(); ++i) buffers_[i].upload({dense[i]});
  }
}

ConstTensor<4> Inputs::q() const { return view_of(buffers_, 0); }
ConstTensor<4> Inputs::k() const { return view_of(buffers_, 1); }
ConstTensor<4> Inputs::v() const { return view_of(buffers_, 2); }

std::size_t Inputs::elements(int sequence) const {
  return static_cast<std::size_t>(shape_.batch) * static_cast<std::size_t>(sequence) *
         static_cast<std::size_t>(shape_.heads) * static_cast<std::size_t>(shape_.head_dim);
}

std::size_t Inputs::oracle_elements(int sequence) const {
  return oracle_shape_.batch * static_cast<std::size_t>(sequence) * oracle_shape_.heads *
         oracle_shape_.head_dim;
}

std::size_t Inputs::turn(std::size_t batch, std::size_t head, Side side) const {
  const std::size_t of_all = batch * static_cast<std::size_t>(shape_.heads) + head;
  return (side == Side::kScores ? of_all : 3 * of_all + 1) % oracle_shape_.head_dim;
}

ForwardProblem::ForwardProblem(const ProblemShape& shape, const gpu::Device& device,
                               std::uint64_t seed)
    : shape_(shape),
      inputs_(shape, device, seed),
      o_(shape, shape.queries, 1, device),
      lse_(device, inputs_.elements(shape.queries) / static_cast<std::size_t>(shape.head_dim)) {}

ForwardArgs ForwardProblem::args() {
  return {inputs_.q(),
          inputs_.k(),
          inputs_.v(),
          o_.view(0),
          tensor(lse_.data(), shape_.batch, shape_.heads, shape_.queries),
          shape_.scale,
          shape_.causal};
}

void ForwardProblem::reset() {
  o_.poison();
  lse_.poison();
}

std::vector<float> ForwardProblem::output() {
  std::vector<float> result;
  append(result, o_.download(0));
  const std::vector<float> lse = lse_.download();
  result.insert(result.end(), lse.begin(), lse.end());
  return result;
}

ladder::Reference ForwardProblem::reference() {
  const testing::AttentionShape& shape = inputs_.oracle_shape();
  const testing::AttentionForward exact =
      testing::attention_forward(shape, inputs_.exact_q(), inputs_.exact_k(), inputs_.exact_v());
  const ForwardBounds bounds =
      forward_bounds(shape, inputs_.exact_q(), inputs_.exact_k(), inputs_.exact_v());
  ladder::Reference reference;
  reference.values = inputs_.expand(exact.o, shape_.queries, Inputs::Side::kValues);
  bounds_ = inputs_.expand(bounds.o, shape_.queries, Inputs::Side::kValues);
  // [B, H, Tq]: with one head replicated, the same Tq values again and again.
  for (std::size_t e = 0; e < lse_.size(); ++e) {
    reference.values.push_back(exact.lse[e % exact.lse.size()]);
    bounds_.push_back(bounds.lse[e % bounds.lse.size()]);
  }
  return reference;
}

std::string ForwardProblem::describe(std::size_t element) {
  const std::size_t o_elements = inputs_.elements(shape_.queries);
  if (element < o_elements) return describe_tensor("o", element, shape_.queries, shape_);
  return concat("lse",
                indices(element - o_elements, {static_cast<std::size_t>(shape_.heads),
                                               static_cast<std::size_t>(shape_.queries)}),
                " of ", to_string(shape_));
}

std::string ForwardProblem::stray_write() const {
  const std::string o = o_.stray_write();
  return o.empty() ? lse_.overwritten() : "o: " + o;
}

BackwardProblem::BackwardProblem(const ProblemShape& shape, const gpu::Device& device,
                                 std::uint64_t seed)
    : shape_(shape),
      device_(device),
      inputs_(shape, device, seed),
      o_(shape, shape.queries, 1, device),
      d_o_(shape, shape.queries, 1, device),
      lse_(device, inputs_.elements(shape.queries) / static_cast<std::size_t>(shape.head_dim)),
      gradients_(buffers_of(shape, device)) {
  const std::vector<bf16> d_o =
      testing::normal_bf16(inputs_.oracle_elements(shape.queries), 4 * seed + 3);
  exact_d_o_ = testing::to_double(d_o);
  d_o_.upload({inputs_.expand(d_o, shape.queries, Inputs::Side::kValues)});
  if (shape.replicated) {
    const ForwardArgs forward{inputs_.q(),
                              inputs_.k(),
                              inputs_.v(),
                              o_.view(0),
                              tensor(lse_.data(), shape.batch, shape.heads, shape.queries),
                              shape.scale,
                              shape.causal};
    const gpu::Stream stream(device_);
    ForwardPlan(forward, device_).run(stream);
    stream.synchronize();
    return;
  }
  const testing::AttentionForward exact = testing::attention_forward(
      inputs_.oracle_shape(), inputs_.exact_q(), inputs_.exact_k(), inputs_.exact_v());
  std::vector<bf16> o;
  for (const double value : exact.o) o.push_back(to_bf16(static_cast<float>(value)));
  o_.upload({o});
  lse_.upload(std::vector<float>(exact.lse.begin(), exact.lse.end()));
}

BackwardArgs BackwardProblem::args() {
  BackwardArgs args;
  args.q = inputs_.q();
  args.k = inputs_.k();
  args.v = inputs_.v();
  args.o = o_.view(0);
  args.d_o = d_o_.view(0);
  args.lse = tensor(lse_.data(), shape_.batch, shape_.heads, shape_.queries);
  args.dq = view_of(gradients_, 0);
  args.dk = view_of(gradients_, 1);
  args.dv = view_of(gradients_, 2);
  args.scale = shape_.scale;
  args.causal = shape_.causal;
  return args;
}

void BackwardProblem::reset() {
  for (const TokenBuffer& gradient : gradients_) gradient.poison();
}

std::vector<float> BackwardProblem::output() {
  std::vector<float> result;
  for (int i = 0; i < 3; ++i) {
    const bool packed = gradients_.size() == 1;
    append(result, gradients_[packed ? 0 : static_cast<std::size_t>(i)].download(packed ? i : 0));
  }
  return result;
}

ladder::Reference BackwardProblem::reference() {
  using Side = Inputs::Side;
  const testing::AttentionShape& shape = inputs_.oracle_shape();
  const testing::AttentionBackward exact = testing::attention_backward(
      shape, inputs_.exact_q(), inputs_.exact_k(), inputs_.exact_v(), exact_d_o_);
  const BackwardBounds bounds =
      backward_bounds(shape, inputs_.exact_q(), inputs_.exact_k(), inputs_.exact_v(), exact_d_o_);
  ladder::Reference reference;
  bounds_.clear();
  const auto add = [&](const std::vector<double>& values, const std::vector<double>& allowed,
                       int sequence, Side side) {
    const std::vector<double> all = inputs_.expand(values, sequence, side);
    reference.values.insert(reference.values.end(), all.begin(), all.end());
    const std::vector<double> all_bounds = inputs_.expand(allowed, sequence, side);
    bounds_.insert(bounds_.end(), all_bounds.begin(), all_bounds.end());
  };
  add(exact.dq, bounds.dq, shape_.queries, Side::kScores);
  add(exact.dk, bounds.dk, shape_.keys, Side::kScores);
  add(exact.dv, bounds.dv, shape_.keys, Side::kValues);
  return reference;
}

std::string BackwardProblem::describe(std::size_t element) {
  const std::size_t of_query = inputs_.elements(shape_.queries);
  const std::size_t of_key = inputs_.elements(shape_.keys);
  if (element < of_query) return describe_tensor("dq", element, shape_.queries, shape_);
  element -= of_query;
  if (element < of_key) return describe_tensor("dk", element, shape_.keys, shape_);
  return describe_tensor("dv", element - of_key, shape_.keys, shape_);
}

std::string BackwardProblem::stray_write() const {
  for (const TokenBuffer& gradient : gradients_) {
    if (std::string stray = gradient.stray_write(); !stray.empty()) return "gradients: " + stray;
  }
  return {};
}

}  // namespace rungs::attention

#include "catalog/step_problem.hpp"

#include <rungs/gpu/graph.hpp>
#include <rungs/testing/random.hpp>

#include <cmath>
#include <cstring>
#include <optional>

#include "catalog/reference_model.hpp"
#include "detail/philox.hpp"

namespace rungs::training {
namespace {

using optimizer::StepReport;

ladder::Support always(const StepArgs&, const ladder::Machine&) { return {}; }

// Runs one step `args.steps` times by `once` and keeps the first report.
template <class Once>
void run_steps(const StepArgs& args, gpu::StreamHandle stream, Once&& once) {
  for (int i = 0; i < args.steps; ++i) {
    once();
    if (i == 0)
      gpu::copy_async(args.first_report, &args.step->report(), sizeof(StepReport), stream);
  }
}

class EagerSteps final : public ladder::Prepared {
 public:
  explicit EagerSteps(const StepArgs& args) : args_(args) {}
  void operator()(gpu::StreamHandle stream) override {
    run_steps(args_, stream, [&] { args_.step->enqueue(args_.step->queue(stream)); });
  }

 private:
  StepArgs args_;
};

class GraphSteps final : public ladder::Prepared {
 public:
  GraphSteps(const StepArgs& args, const gpu::Device& device) : args_(args) {
    const gpu::Stream stream(device);
    graph_.emplace(
        gpu::Graph::capture(stream, [&] { args_.step->enqueue(args_.step->queue(stream)); }));
  }
  void operator()(gpu::StreamHandle stream) override {
    run_steps(args_, stream, [&] { graph_->replay(stream); });
  }

 private:
  StepArgs args_;
  std::optional<gpu::Graph> graph_;
};

std::unique_ptr<ladder::Prepared> prepare_eager(const StepArgs& args, const ladder::Machine&) {
  return std::make_unique<EagerSteps>(args);
}
std::unique_ptr<ladder::Prepared> prepare_graph(const StepArgs& args,
                                                const ladder::Machine& machine) {
  return std::make_unique<GraphSteps>(args, *machine.device);
}

TrainConfig settings(const StepShape& shape, std::uint64_t seed) {
  TrainConfig train;
  train.batch = shape.batch;
  train.data_seed = seed;
  return train;
}

}  // namespace

Corpus made_up_text(std::uint64_t seed) {
  static constexpr const char* kWords[] = {"truth ", "universally ", "acknowledged ", "single ",
                                           "man ",   "in ",          "want ",         "of ",
                                           "a ",     "wife.\n"};
  testing::Random random(seed);
  std::string text;
  while (text.size() < 20000) text += kWords[random.below(10)];
  Corpus corpus;
  corpus.name = "made up";
  corpus.train.assign(text.begin(), text.begin() + 18000);
  corpus.held_out.assign(text.begin() + 18000, text.begin() + 20000);
  return corpus;
}

double first_loss(const ModelConfig& model, const TrainConfig& train, const Corpus& corpus,
                  const std::vector<float>& values) {
  const ParameterLayout layout(model);
  reference::Weights weights;
  for (const Parameter& p : layout.parameters()) {
    const auto first = values.begin() + p.offset;
    weights[p.name].assign(first, first + p.count());
  }
  reference::Input input;
  const auto context = static_cast<std::size_t>(model.context);
  for (int b = 0; b < train.batch; ++b) {
    const Philox random = philox(train.data_seed, 0, static_cast<std::uint64_t>(b));
    const std::size_t start = below(corpus.train.size() - context, random.word[0], random.word[1]);
    for (std::size_t t = 0; t < context; ++t) {
      input.tokens.push_back(corpus.train[start + t]);
      input.targets.push_back(corpus.train[start + t + 1]);
    }
  }
  return reference::run(model, weights, input).cross_entropy;
}

double first_loss_bound(const ModelConfig& model) {
  // Roundings to bf16 on the way to a logit: six a layer, the weights of six GEMMs a layer, and
  // both of the head. They are independent and add in quadrature; a token's loss moves by no more
  // than its logits do, whose deviation is about 1 at the start.
  const double roundings = 12.0 * model.layers + 2;
  return std::sqrt(roundings) / 256;
}

const std::array<ladder::Rung<StepArgs>, 2> kStepLadder{{
    {"eager", "every kernel launched by the host", &always, &prepare_eager},
    {"graph", "the whole step captured once and replayed", &always, &prepare_graph},
}};

StepProblem::StepProblem(const StepShape& shape, const gpu::Device& device, std::uint64_t seed)
    : shape_(shape),
      train_(settings(shape, seed)),
      corpus_(made_up_text(seed)),
      stream_(device),
      first_report_(device, 1, gpu::Space::kHostMapped),
      step_(std::make_unique<TrainingStep>(model_, train_, corpus_, device, stream_.get())),
      initial_(step_->initial()) {}

void StepProblem::reset() {
  step_->load(initial_, step_->queue(stream_.get()));
  std::memset(first_report_.data(), 0xff, sizeof(StepReport));  // a loss of NaN
}

std::vector<float> StepProblem::output() {
  std::vector<float> result{static_cast<float>(first_report_.data()->loss)};
  const std::vector<float> parameters = step_->parameters(stream_.get());
  result.insert(result.end(), parameters.begin(), parameters.end());
  return result;
}

ladder::Reference StepProblem::reference() {
  return {.values = {first_loss(model_, train_, corpus_, initial_.weights)}, .positions = {0}};
}

double StepProblem::bound(std::size_t element) {
  if (element > 0) return 0;  // a parameter: the rungs must agree bit for bit
  return first_loss_bound(model_);
}

std::string StepProblem::describe(std::size_t element) {
  if (element == 0) return "loss of step 1";
  for (const Parameter& p : step_->layout().parameters()) {
    const std::int64_t index = static_cast<std::int64_t>(element) - 1 - p.offset;
    if (index >= 0 && index < p.count()) {
      return p.name + "[" + std::to_string(index) + "] after step " + std::to_string(shape_.steps);
    }
  }
  return "padding between parameters";
}

}  // namespace rungs::training

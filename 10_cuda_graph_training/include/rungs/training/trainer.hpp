#pragma once
/// @file trainer.hpp A byte-level GPT with mixture-of-experts layers, trained on text by one rank
/// or several: forward, a VJP a layer, clip and AdamW, either launched kernel by kernel or
/// captured whole in one graph, the exchange between ranks included.

#include <rungs/config.hpp>
#include <rungs/gpu/device.hpp>
#include <rungs/symmetric/context_args.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace rungs::bootstrap {
class Group;
}

namespace rungs::training {

/// Shape of the model. Vocabulary: the 256 byte values.
struct ModelConfig {
  int layers = 2;
  int width = 128;  ///< d, a multiple of heads and of 64
  int heads = 4;
  int experts = 4;
  int top_k = 2;
  int hidden = 512;        ///< of one expert
  int context = 64;        ///< bytes of a sequence
  std::uint64_t seed = 1;  ///< of the initial weights
};

struct TrainConfig {
  int batch = 16;  ///< sequences a step, of all ranks together
  int steps = 250;
  int warmup_steps = 10;  ///< linear, then cosine to 10 % of lr
  float lr = 4e-3f;
  float weight_decay = 0.1f;
  float clip = 1.0f;            ///< bound of the global gradient norm
  float aux_weight = 0.01f;     ///< of the router's load-balance loss
  std::uint64_t data_seed = 1;  ///< of the batches' positions

  /// What the tour trains with: the defaults.
  static TrainConfig tour() { return {}; }
  /// What `--quick` trains with: the same schedule in fewer and smaller steps.
  static TrainConfig quick();
};

/// Whether `ranks` ranks can train this. @throws Error kInvalidArgument naming the field that is
/// wrong: what the constructor of Trainer would throw
void check(const ModelConfig& model, const TrainConfig& train, int ranks = 1);
/// Trained numbers of the whole model.
std::size_t parameter_count(const ModelConfig& model);

/// Text as training and held-out bytes, and what a table of frequencies could predict of it.
struct Corpus {
  std::string name;
  std::vector<std::uint8_t> train;
  std::vector<std::uint8_t> held_out;  ///< the last tenth
  double unigram_entropy = 0;          ///< nats a byte, of the whole text
  double bigram_entropy = 0;  ///< nats a byte, of the next byte given the last, of the whole text

  /// @throws Error kSystem if the file cannot be read; kInvalidArgument if it is too short for one
  ///         sequence of `context` bytes in the held-out part (the text says how many bytes are
  ///         needed)
  static Corpus load(const std::string& path, int context);
};

enum class Mode {
  kEager,  ///< every kernel launched by the host, step by step
  kGraph,  ///< the whole step captured at its first use, then replayed
};

/// What a checkpoint says of itself.
struct CheckpointInfo {
  ModelConfig model;
  TrainConfig train;
  int steps_done = 0;
  std::vector<int> nodes = {0};  ///< of each rank that wrote it, numbered by their first ranks
};
/// The file that stands for what Trainer::save(directory) wrote: all of it, or, of several ranks,
/// the manifest that names a file a rank.
std::string checkpoint_path(const std::string& directory);
/// Reads what Trainer::save() wrote and checks it whole, without a device or a text.
/// @throws Error kSystem if a file is missing; kInvalidArgument naming what is damaged
CheckpointInfo inspect_checkpoint(const std::string& directory);

/// How long a resumed run may be.
enum class Resume {
  kSameSteps,  ///< as long as the saved one: then every bit is that of an uninterrupted run
  /// Also longer. The learning rate follows its schedule over the new number of steps from the next
  /// step on, so the result is not that of a run which had this length from its first step.
  kMoreSteps,
};

/// When the gradients of parameters that every rank holds are summed over the ranks.
enum class Gradients {
  kAfterBackward,  ///< naive: when the backward pass is done
  kOverlapped,  ///< in buckets on a second stream, each as soon as the backward pass has filled it
};

/// Of several ranks; every rank must say the same.
struct RanksOptions {
  Gradients gradients = Gradients::kOverlapped;
  /// Who posts the transfers between nodes.
  symmetric::Network network = symmetric::Network::kGpuInitiated;
  double timeout_seconds = 30;  ///< of every wait for a peer; × RUNGS_TIMEOUT_SCALE
};

/// Numbers of one step, read after it.
struct StepResult {
  double loss = 0;       ///< mean cross-entropy of the batch, nats a byte
  double aux_loss = 0;   ///< load-balance loss (1 is balanced), mean over layers
  double grad_norm = 0;  ///< before clipping
};

/// Wall time of one part of a step.
struct PartTime {
  std::string part;  ///< "experts forward"
  double seconds = 0;
  int calls = 0;
};

/// One rank's trainer. Alone it holds the whole model. Of several ranks each holds all dense
/// parameters and model.experts / ranks experts a layer, and computes train.batch / ranks sequences
/// of every step: those that it would compute alone, dealt out in order.
/// @note several ranks: every call but the const ones is collective, and save() is, too. One that
///       throws on one rank throws on all, within RanksOptions::timeout_seconds if a rank died;
///       then destroy the trainer and, with the ranks that are left, resume from the last
///       checkpoint
class Trainer {
 public:
  /// @throws Error kInvalidArgument naming the field that is wrong; kUnsupported if the device
  /// cannot run it
  Trainer(const ModelConfig& model, const TrainConfig& train, Corpus corpus,
          const gpu::Device& device);
  /// One of the group's ranks. model.experts and train.batch must be multiples of its size. Ranks
  /// on one host exchange through mapped memory, others through an HCA.
  /// @param group must outlive the trainer, which alone uses it while one of its calls runs
  /// @throws Error as above; kInvalidArgument if ranks disagree; kTimeout, kPeerLost
  /// @note all ranks have the same dense parameters, bit for bit, after every step; losses are
  ///       those of one rank up to the order of sums (README.md, "How wrong it may be")
  Trainer(const ModelConfig& model, const TrainConfig& train, Corpus corpus,
          const gpu::Device& device, bootstrap::Group& group, const RanksOptions& options = {});
  ~Trainer();
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  /// One optimizer step on the next batch. Both modes give the same bits and can be mixed.
  /// @throws Error kInternal "loss is not finite at step N" without having hidden it
  StepResult step(Mode mode);
  /// One optimizer step as step(Mode::kEager), waiting after every part: where a step's time goes.
  /// Same bits.
  std::vector<PartTime> profile_step();
  /// Mean loss over `batches` fixed batches of the held-out text (0: all of it), nats a byte.
  /// @param go_on called before the first batch and after each with the batches done and those in
  ///        all; false ends the pass
  /// @return NaN if the pass was ended before its last batch. Of several ranks the mean over all,
  ///         the same on each; the pass ends when go_on said so on one
  double evaluate(int batches, const std::function<bool(int done, int total)>& go_on = {});
  [[nodiscard]] int steps_done() const noexcept;
  /// Of the whole model.
  [[nodiscard]] std::size_t parameter_count() const noexcept;
  /// Launches in the captured step; 0 before the first kGraph step.
  [[nodiscard]] std::size_t graph_nodes() const noexcept;
  [[nodiscard]] const Corpus& corpus() const noexcept;
  [[nodiscard]] const ModelConfig& model() const noexcept;
  [[nodiscard]] int rank() const noexcept;
  [[nodiscard]] int ranks() const noexcept;

  /// Writes weights, moments, step and configuration, atomically (a crash leaves the last one
  /// whole). Of several ranks: a file each into a folder that all of them see.
  /// @throws Error kSystem naming the path
  void save(const std::string& directory) const;
  /// Continues from save(): the next step gives the bits it would have given without the
  /// interruption, unless `rule` allows more steps and this trainer has more.
  /// @throws Error kInvalidArgument naming the first field of the configuration that differs, or
  /// what is damaged, or both numbers and placements of ranks if they are not the saved ones
  void resume(const std::string& directory, Resume rule = Resume::kSameSteps);
  /// All parameters of this rank, fp32, in the order of the checkpoint: for tests of bit equality.
  [[nodiscard]] std::vector<float> parameters() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rungs::training

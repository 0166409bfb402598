#include <rungs/collectives/all_well.hpp>
#include <rungs/collectives/communicator.hpp>
#include <rungs/collectives/watch.hpp>

#include <rungs/core/error.hpp>
#include <rungs/core/log.hpp>
#include <rungs/gpu/graph.hpp>
#include <rungs/gpu/launch.hpp>

#include "detail/agreement.hpp"
#include "detail/call.hpp"
#include "detail/describe_wait.hpp"
#include "detail/device_state.hpp"
#include "detail/pending.hpp"
#include "detail/reduces.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

namespace rungs::collectives {

using detail::Call;

struct Communicator::State {
  State(bootstrap::Group& its_group, const gpu::Device& its_device, KernelTable its_table,
        std::shared_ptr<const Tuner> its_tuner, const CommunicatorOptions& options);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[nodiscard]] Question question_of(const Call& call) const;
  [[nodiscard]] Choice choose(const Call& call) const;
  void check_stream(gpu::StreamHandle stream) const;
  void enqueue(const Call& call, gpu::StreamHandle stream);
  void load_kernels(gpu::StreamHandle stream);

  bootstrap::Group& group;
  gpu::Device device;
  KernelTable table;
  std::shared_ptr<const Tuner> tuner;
  std::vector<std::string> names;  // of the table's entries, for reports and traces
  int channels = 0;
  Surroundings surroundings;
  std::unique_ptr<detail::DeviceState> on_device;
  gpu::Buffer<Control> control;
  std::unique_ptr<Watch> watch;
  detail::Pending pending;
  std::uint64_t operations = 0;
  double timeout_seconds = 0;
  int exceptions = std::uncaught_exceptions();
};

Communicator::State::State(bootstrap::Group& its_group, const gpu::Device& its_device,
                           KernelTable its_table, std::shared_ptr<const Tuner> its_tuner,
                           const CommunicatorOptions& options)
    : group(its_group),
      device(its_device),
      table(its_table),
      tuner(std::move(its_tuner)),
      control(its_device, 1, gpu::Space::kHostMapped),
      pending(its_device) {
  // Gone when this is done: ranks on one GPU need a hardware queue for each stream that waits.
  const gpu::Stream stream(device);

  // 1. What may fail on this rank alone comes before anybody waits for it; all ranks hear of it.
  detail::Settings settings;
  std::string problem;
  ErrorCode code = ErrorCode::kInternal;
  const auto attempt = [&](const auto& step) {
    try {
      step();
    } catch (const Error& error) {
      code = error.code();
      problem = error.message();
    }
  };
  attempt([&] {
    RUNGS_REQUIRE(tuner != nullptr, "communicator: the tuner is null");
    settings = detail::settle(options, group.size(), table);
    const detail::Layout layout(group.size(), settings.channels, settings.slot_bytes);
    on_device = std::make_unique<detail::DeviceState>(device, layout, stream);
  });
  all_well(group, code, problem);

  // 2. Agree, and map each other's memory.
  const detail::Agreement agreement = detail::agree(group, settings, table, device);
  surroundings = agreement.surroundings;
  channels = settings.channels;
  timeout_seconds = static_cast<double>(settings.timeout_ns) / 1e9;
  problem = on_device->links().connect(group, agreement.ordinals);
  for (int rank = 0; rank < group.size() && problem.empty(); ++rank) {
    if (rank != group.rank() && on_device->links().of(rank) == nullptr)
      problem = concat("rank ", rank, " is on another host, and its memory cannot be mapped");
  }
  code = ErrorCode::kUnsupported;

  // 3. Tell the kernels, and load them: nothing may be loaded while another rank's kernel waits.
  if (problem.empty()) {
    attempt([&] {
      watch = std::make_unique<Watch>(group, *control.data(),
                                      WatchOptions{timeout_seconds, &detail::describe_wait});
      on_device->publish(group.rank(), settings.rings, *control.data(), settings.timeout_ns,
                         stream);
      load_kernels(stream);
    });
  }
  all_well(group, code, problem);
}

void Communicator::State::load_kernels(gpu::StreamHandle stream) {
  for (const KernelEntry& entry : table) {
    names.push_back(concat(to_string(entry.what), " ", entry.algorithm, "/",
                           to_string(entry.protocol), " ", to_string(entry.dtype),
                           detail::reduces(entry.what) ? concat(" ", to_string(entry.op)) : ""));
    if (RUNGS_GPU_CUDA == 0 || group.size() == 1) continue;
    KernelArgs nothing{};
    nothing.communicator = on_device->communicator();
    nothing.channels = 1;
    nothing.what = entry.what;
    gpu::launch(names.back(), {.grid = {1}, .block = {entry.threads}}, stream, entry.kernel,
                nothing);
  }
  gpu::synchronize(stream);
}

Communicator::State::~State() {
  const Deadline deadline =
      Deadline::after(std::chrono::duration<double>(timeout_seconds / timeout_scale() + 10));
  if (std::uncaught_exceptions() > exceptions)
    watch->abort("its communicator was destroyed while an exception was thrown");
  try {
    pending.wait(deadline);
    const auto over = [&] { return watch->error().has_value(); };
    if (over() || !on_device->sent_was_taken(group, deadline, over))
      on_device->links().keep_for_late_writers();
  } catch (const std::exception& error) {
    log::error("collectives: while rank ", group.rank(), " leaves: ", error.what());
    on_device->links().keep_for_late_writers();
  }
}

Question Communicator::State::question_of(const Call& call) const {
  return {call.what, call.dtype, call.op, detail::total_bytes(call, group.size()), surroundings};
}

Choice Communicator::State::choose(const Call& call) const {
  const Question question = question_of(call);
  const Choice choice = tuner->choose(question, table, channels);
  RUNGS_REQUIRE(choice.entry < table.size() && serves(table[choice.entry], question),
                "tuner: entry ", choice.entry, " of ", table.size(), " does not compute ",
                to_string(call.what), " of ", to_string(call.dtype));
  RUNGS_REQUIRE(choice.channels >= 1 && choice.channels <= channels, "tuner: ", choice.channels,
                " channels; 1 to ", channels);
  const std::string_view illegal = table[choice.entry].illegal(surroundings);
  RUNGS_REQUIRE(illegal.empty(), "tuner: ", table[choice.entry].algorithm, "/",
                to_string(table[choice.entry].protocol), " is not legal here: ", illegal);
  return choice;
}

void Communicator::State::check_stream(gpu::StreamHandle its) const {
  if (its != nullptr) return;
  RUNGS_REQUIRE(!surroundings.same_device, "collectives: ranks that share device ",
                device.ordinal(),
                " would wait for each other on its default stream; give each a gpu::Stream");
  const int current = gpu::Device::current().ordinal();
  RUNGS_REQUIRE(current == device.ordinal(), "collectives: the default stream is that of device ",
                current, "; the communicator is on device ", device.ordinal());
}

void Communicator::State::enqueue(const Call& call, gpu::StreamHandle its) {
  watch->check();
  detail::check_call(call, group.rank(), group.size(), table);
  check_stream(its);
  ++operations;
  if (call.count == 0) return;
  if (group.size() == 1) {
    if (call.send != call.recv)
      gpu::copy_async(call.recv, call.send, detail::total_bytes(call, 1), its);
    return;
  }
  const Choice choice = choose(call);
  const KernelEntry& entry = table[choice.entry];
  const bool in_bytes = entry.dtype == DType::kU8 && !detail::reduces(call.what);
  KernelArgs args{};
  args.communicator = on_device->communicator();
  args.send = call.send;
  args.recv = call.recv;
  args.count = in_bytes ? call.count * size_bytes(call.dtype) : call.count;
  args.operation = operations;
  args.root = call.root;
  args.channels = choice.channels;
  args.what = call.what;
  gpu::launch(names[choice.entry],
              {.grid = {static_cast<unsigned>(choice.channels)}, .block = {entry.threads}}, its,
              entry.kernel, args);
  if (!gpu::is_capturing(its)) pending.add(its);
}

Communicator::Communicator(bootstrap::Group& group, const gpu::Device& device, KernelTable table,
                           std::shared_ptr<const Tuner> tuner, const CommunicatorOptions& options)
    : state_(std::make_unique<State>(group, device, table, std::move(tuner), options)) {}
Communicator::~Communicator() = default;
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;

int Communicator::rank() const noexcept { return state_->group.rank(); }
int Communicator::size() const noexcept { return state_->group.size(); }
const gpu::Device& Communicator::device() const noexcept { return state_->device; }
const Surroundings& Communicator::surroundings() const noexcept { return state_->surroundings; }

void Communicator::all_reduce(const void* send, void* recv, std::size_t count, DType dtype, Op op,
                              gpu::StreamHandle stream) {
  state_->enqueue({Collective::kAllReduce, send, recv, count, dtype, op}, stream);
}

void Communicator::all_gather(const void* send, void* recv, std::size_t count, DType dtype,
                              gpu::StreamHandle stream) {
  state_->enqueue({Collective::kAllGather, send, recv, count, dtype}, stream);
}

void Communicator::reduce_scatter(const void* send, void* recv, std::size_t count, DType dtype,
                                  Op op, gpu::StreamHandle stream) {
  state_->enqueue({Collective::kReduceScatter, send, recv, count, dtype, op}, stream);
}

void Communicator::broadcast(const void* send, void* recv, std::size_t count, DType dtype, int root,
                             gpu::StreamHandle stream) {
  state_->enqueue({Collective::kBroadcast, send, recv, count, dtype, Op::kSum, root}, stream);
}

void Communicator::all_to_all(const void* send, void* recv, std::size_t count, DType dtype,
                              gpu::StreamHandle stream) {
  state_->enqueue({Collective::kAllToAll, send, recv, count, dtype}, stream);
}

Choice Communicator::choice(Collective what, std::size_t count, DType dtype, Op op) const {
  return state_->choose({what, nullptr, nullptr, count, dtype, op});
}

std::string Communicator::explain(Collective what, std::size_t count, DType dtype, Op op) const {
  return state_->tuner->explain(state_->question_of({what, nullptr, nullptr, count, dtype, op}),
                                state_->table, state_->channels);
}

std::vector<std::uint64_t> Communicator::slots_sent() const {
  return state_->on_device->slots_sent();
}

void Communicator::synchronize(gpu::StreamHandle stream, const Deadline& deadline) {
  gpu::synchronize(stream, deadline);
  state_->watch->check_results();
}

std::optional<AsyncError> Communicator::async_error() const { return state_->watch->error(); }

const std::uint32_t* Communicator::abort_word() const noexcept {
  return &state_->control.data()->abort;
}

void Communicator::abort(const std::string& reason) noexcept { state_->watch->abort(reason); }

}  // namespace rungs::collectives

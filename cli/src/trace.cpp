// `rungs trace`: the timeline of one emulated launch of a rung.
#include "commands.hpp"
#include "trace_target.hpp"
#include "usage.hpp"

#include <rungs/config.hpp>

#include <memory>

#if !RUNGS_GPU_CUDA
#include "screen.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <rungs/core/error.hpp>
#include <rungs/core/file.hpp>
#include <rungs/core/suggest.hpp>
#include <rungs/core/table.hpp>
#include <rungs/core/text.hpp>
#include <rungs/emulator/options.hpp>
#include <rungs/emulator/trace.hpp>

#include <algorithm>
#endif

namespace rungs::cli {
namespace {

struct TraceOptions {
  std::string what;
  std::string case_name;
  std::string kernel;
  unsigned launch = 1;
  std::string cta = "0,0,0";
  std::string out = "trace.json";
  std::string svg;
  std::string steps;
  std::string schedule = "late";
  std::uint64_t seed = 0;
  std::size_t events = 200'000;
};

#if RUNGS_GPU_CUDA

int run_trace(const TraceOptions& /*options*/) {
  throw UsageError(
      "trace records the emulator, and this program runs kernels on a GPU. Build it without CUDA: "
      "cmake --workflow --preset emulated; a GPU's own tools are Nsight Systems and Nsight "
      "Compute");
}

#else

namespace trace = emulator::trace;

emulator::Options schedule_of(const TraceOptions& options) {
  emulator::Options result = emulator::options();
  result.async = options.schedule == "early"    ? emulator::Async::kEarly
                 : options.schedule == "random" ? emulator::Async::kRandom
                                                : emulator::Async::kLate;
  result.seed = options.seed != 0 || options.schedule != "random" ? options.seed : 1;
  return result;
}

std::string text_of(const emulator::Index3& index) {
  return fmt::format("{},{},{}", index.x, index.y, index.z);
}

/// "1 first, 2 second": the launches of a run, by their numbers.
std::string counted(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 12; ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", i + 1, names[i]);
  return names.size() > 12 ? text + ", ..." : text;
}

[[noreturn]] void complain_of_launch(const TraceOptions& options, const TraceTarget& target,
                                     const std::vector<std::string>& launched) {
  const std::string run = fmt::format("one run of {}/{} on {}", target.operation.name,
                                      target.rung_name(), target.case_name());
  if (launched.empty())
    throw UsageError(fmt::format("{} launches no kernel: there is nothing to trace", run));
  if (options.kernel.empty())
    throw UsageError(fmt::format("{} has no launch {}; it launches: {}", run, options.launch,
                                 counted(launched)));
  std::vector<std::string> kernels;
  for (const std::string& name : launched) {
    if (std::find(kernels.begin(), kernels.end(), name) == kernels.end()) kernels.push_back(name);
  }
  const std::string nearest = did_you_mean(options.kernel, kernels);
  throw UsageError(fmt::format("{} has no launch {} of '{}'{} Its kernels: {}", run, options.launch,
                               options.kernel, nearest.empty() ? "." : nearest,
                               fmt::join(kernels, ", ")));
}

/// The asked-for launch of a checked run; of a check in which a launch fails, that launch.
/// @param launched set to the kernels that the run launches
trace::Trace record(const TraceOptions& options, const TraceTarget& target,
                    std::vector<std::string>* launched) {
  const gpu::Device device = gpu::Device::open(0);
  device.make_current();
  ladder::Machine machine;
  machine.device = &device;
  emulator::set_options(schedule_of(options));
  trace::Request request;
  request.kernel = options.kernel;
  request.cta.reset();
  if (const auto cta = cta_of(options.cta))
    request.cta = emulator::Index3{(*cta)[0], (*cta)[1], (*cta)[2]};
  request.most_events = options.events;
  std::unique_ptr<ladder::Trial> trial;
  {
    request.launch = 0;  // a launch that fails is the last one
    trace::Session check(request);
    trial = target.operation.trial(target.rung, target.case_index, machine);
    if (!trial->outcome().checked) {
      *launched = check.launched();
      std::optional<trace::Trace> failed = check.take();
      if (failed && !failed->report.empty() && !failed->ctas.empty()) return *std::move(failed);
      RUNGS_THROW(kInternal, target.operation.name, "/", target.rung_name(), " on ",
                  target.case_name(), " failed its check: ", trial->outcome().note);
    }
  }
  request.launch = options.launch;
  trace::Session session(request);
  trial->time_once();
  device.synchronize();
  std::optional<trace::Trace> traced = session.take();
  *launched = session.launched();
  if (!traced) complain_of_launch(options, target, *launched);
  if (traced->ctas.empty()) {
    throw UsageError(fmt::format("launch {} of {} has no block {}: its grid is {}", options.launch,
                                 traced->kernel, options.cta, text_of(traced->grid)));
  }
  return *std::move(traced);
}

void show_totals(const trace::Trace& traced) {
  const trace::Totals& totals = traced.totals;
  heading("Counted in the whole launch");
  paragraph(
      fmt::format("blocks: {} of {} threads; tensor cores: {} FLOPs; barriers and mbarrier phases: "
                  "{}; switches "
                  "between threads: {}",
                  totals.blocks, totals.blocks == 0 ? 0 : totals.threads / totals.blocks,
                  totals.mma_flops, totals.barriers, totals.fiber_switches));
  if (totals.instructions.empty()) return;
  Table instructions({"wrapped instruction", "by warps", "by threads"});
  for (const trace::InstructionCount& count : totals.instructions)
    instructions.add_row(
        {count.name, fmt::format("{}", count.warps), fmt::format("{}", count.threads)});
  write_table(instructions, 2);
  if (!totals.asynchronous.empty()) {
    write("\n");
    Table landed({"asynchronous", "operations", "bytes"});
    for (const trace::AsyncCount& count : totals.asynchronous)
      landed.add_row(
          {count.name, fmt::format("{}", count.operations), fmt::format("{}", count.bytes)});
    write_table(landed, 2);
  }
  write("\n");
  if (totals.banks.empty()) {
    paragraph(
        "No wrapped access to shared memory, so no bank conflict was looked for: a plain C++ "
        "load or store is not seen.");
    return;
  }
  Table banks({"shared-memory access", "accesses", "wavefronts", "without conflicts"});
  for (const trace::BankCount& count : totals.banks)
    banks.add_row({count.name, fmt::format("{}", count.accesses),
                   fmt::format("{}", count.wavefronts), fmt::format("{}", count.ideal)});
  write_table(banks, 2);
}

void write_files(const TraceOptions& options, const trace::Trace& traced) {
  file::write_atomic(options.out, trace::to_json(traced));
  std::size_t tracks = 0;
  std::size_t dropped = 0;
  for (const trace::Cta& cta : traced.ctas) {
    tracks += cta.tracks.size();
    dropped += cta.dropped;
  }
  paragraph(fmt::format(
      "{}: {} {}, {} tracks. Open it in https://ui.perfetto.dev (\"Open trace "
      "file\"; it stays on your machine). One step is shown as 1 us and means "
      "order, not time: docs/trace.md",
      options.out, traced.ctas.size(), traced.ctas.size() == 1 ? "block" : "blocks", tracks));
  if (dropped > 0) {
    paragraph(
        warn(fmt::format("{} events came after the limit of {} and are counted but not "
                         "drawn: fewer blocks (--cta), a smaller case, or a higher --events",
                         dropped, options.events)));
  }
  if (options.svg.empty()) return;
  trace::PictureOptions picture;
  steps_of(options.steps, &picture.from, &picture.to);
  file::write_atomic(options.svg, trace::to_svg(traced, traced.ctas.front(), picture));
  paragraph(fmt::format("{}: block {}", options.svg, text_of(traced.ctas.front().index)));
}

int run_trace(const TraceOptions& options) {
  const TraceTarget target = find_target(options.what, options.case_name);
  static_cast<void>(cta_of(options.cta));  // complained of before any work
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  steps_of(options.steps, &from, &to);
  std::vector<std::string> launched;
  const trace::Trace traced = record(options, target, &launched);
  heading(
      fmt::format("{}/{} on {}", target.operation.name, target.rung_name(), target.case_name()));
  write(fmt::format("  kernel {}, grid {}, block {}, cluster {}; asynchronous work lands {}\n",
                    traced.kernel, text_of(traced.grid), text_of(traced.block),
                    text_of(traced.cluster), traced.schedule));
  if (launched.size() > 1)
    paragraph(fmt::format("a run launches (--launch, --kernel): {}", counted(launched)));
  if (traced.totals.instructions.empty()) {
    paragraph(
        warn("This kernel executes no wrapped instruction, so its timeline is empty: plain "
             "C++ between wrappers is not seen."));
  }
  write_files(options, traced);
  if (!traced.report.empty()) {
    heading("The launch failed");
    write(traced.report + "\n");
    return 1;
  }
  show_totals(traced);
  return 0;
}

#endif

}  // namespace

void add_trace(CLI::App& program, Action& chosen) {
  auto options = std::make_shared<TraceOptions>();
  CLI::App* command = program.add_subcommand(
      "trace", "Record one emulated launch: a timeline for Perfetto, and counts");
  command
      ->add_option("what", options->what,
                   "OPERATION/RUNG (gemm_bf16/tma_wgmma), or an operation: its highest rung; or a "
                   "rung's name, if only one operation has it")
      ->required();
  command->add_option("--case", options->case_name, "A case of 'rungs list' (its first)");
  command->add_option("--kernel", options->kernel, "Only launches of the kernel of this name");
  command->add_option("--launch", options->launch, "Which launch of a run, from 1 (1)")
      ->check(between(1, 1000000));
  command->add_option("--cta", options->cta, "The block to draw, x,y,z, or all (0,0,0)");
  command->add_option("--out", options->out, "The trace (trace.json)");
  command->add_option("--svg", options->svg, "Also a picture of the first block, as SVG");
  command->add_option("--steps", options->steps, "Steps of the picture, FROM:TO (all)");
  command
      ->add_option("--schedule", options->schedule,
                   "When asynchronous work lands: late, early or random (late)")
      ->check(CLI::IsMember({"late", "early", "random"}));
  command->add_option("--seed", options->seed,
                      "Of random landings and of the threads' order; 0: in order (0; random 1)");
  command->add_option("--events", options->events, "Most events drawn (200000)")
      ->check(between(std::size_t{1}, std::size_t{20'000'000}));
  command->footer(
      "In the emulated build only. Steps are logical: order, not time (docs/trace.md).\n"
      "Examples:\n"
      "  rungs trace gemm_bf16/tma_wgmma --svg gemm.svg\n"
      "  rungs trace tma_wgmma --schedule early --cta all");
  command->callback([options, &chosen] { chosen = [options] { return run_trace(*options); }; });
}

}  // namespace rungs::cli

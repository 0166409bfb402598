// `rungs doctor`: what this machine has, what it lacks, and what follows.
#include "commands.hpp"
#include "facts.hpp"
#include "screen.hpp"

#include <fmt/format.h>
#include <rungs/core/text.hpp>

namespace rungs::cli {
namespace {

std::string mark(Verdict verdict) {
  switch (verdict) {
    case Verdict::kReal:
      return good("ok      ");
    case Verdict::kEmulated:
      return warn("emulated");
    case Verdict::kLacks:
      return bad("lacks   ");
    case Verdict::kNote:
      break;
  }
  return faint("note    ");
}

int run_doctor() {
  const gpu::Device device = gpu::Device::open(0);
  heading("What this machine has, what it lacks, and what follows");
  int lacks = 0;
  for (const Fact& fact : all_facts(device)) {
    lacks += fact.verdict == Verdict::kLacks ? 1 : 0;
    write(fmt::format("  {}  {}  {}\n", mark(fact.verdict), pad_right(fact.what, 13),
                      wrap(fact.found, 27)));
    write(fmt::format("{:27}{}\n", "", faint(wrap(fact.follows, 27))));
  }
  heading("What to do");
  paragraph(
      "./rungs tour and ./rungs test work here" +
      std::string(lacks == 0 ? "." : "; what is marked 'lacks' limits what else can be done."));
  return 0;
}

}  // namespace

void add_doctor(CLI::App& program, Action& chosen) {
  CLI::App* command =
      program.add_subcommand("doctor", "Say what this machine has and lacks, and what follows");
  command->callback([&chosen] { chosen = &run_doctor; });
}

}  // namespace rungs::cli

// The program `rungs`: finds the subcommand, runs it, and says what went wrong in one line.
#include "commands.hpp"
#include "screen.hpp"
#include "usage.hpp"

#include <fmt/format.h>
#include <rungs/config.hpp>
#include <rungs/core/deadline.hpp>
#include <rungs/core/error.hpp>
#include <rungs/core/suggest.hpp>
#include <rungs/core/text.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace rungs::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
/// Words that later stages bring; somebody who has read of them deserves a better answer than
/// "unknown".
constexpr std::array<std::string_view, 4> kToCome{"verbs", "generate", "inspect", "report"};

int complain(std::string_view text, int status) {
  std::fflush(stdout);
  fmt::print(stderr, "rungs: {}\n", text);
  return status;
}

std::vector<std::string> command_names(const CLI::App& program) {
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

/// "; did you mean 'tour'? " or ". ": what stands between a complaint and the way out.
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string text = did_you_mean(word, candidates);
  return text.empty() ? ". " : text + " ";
}

/// Empty if the first word is a subcommand or an option; otherwise what to say.
std::string unknown_command(const CLI::App& program, std::string_view word) {
  if (word.empty() || word.front() == '-') return "";
  const std::vector<std::string> names = command_names(program);
  if (std::find(names.begin(), names.end(), word) != names.end()) return "";
  if (std::find(kToCome.begin(), kToCome.end(), word) != kToCome.end()) {
    return fmt::format(
        "'{}' comes with a later stage; this version has no such command. See 'rungs --help'",
        word);
  }
  return fmt::format("there is no command '{}'{}See 'rungs --help'", word, suggestion(word, names));
}

/// CLI11's complaint about an option in our words.
std::string usage_error(const CLI::App& program, const CLI::ParseError& error) {
  const auto parsed = program.get_subcommands();
  const CLI::App& where = parsed.empty() ? program : *parsed.front();
  const std::string name = parsed.empty() ? "rungs" : "rungs " + where.get_name();
  const std::string way_out = fmt::format("See '{} --help'", name);
  const std::vector<std::string> left = program.remaining(true);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr || left.empty()) {
    return fmt::format("{}. {}", error.what(), way_out);
  }
  std::vector<std::string> known;
  for (const CLI::Option* option : where.get_options()) {
    for (const std::string& long_name : option->get_lnames()) known.push_back("--" + long_name);
  }
  return fmt::format("'{}' is not understood here{}{}", left.front(),
                     suggestion(left.front(), known), way_out);
}

/// CLI11's help, broken at spaces: terminals break long lines within words.
class Help : public CLI::Formatter {
 public:
  std::string make_option_desc(const CLI::Option* option) const override {
    const std::size_t columns = screen_columns();
    return wrap(CLI::Formatter::make_option_desc(option), 0,
                columns > get_column_width() + 20 ? columns - get_column_width() : columns);
  }
  std::string make_description(const CLI::App* app) const override {
    return wrap(app->get_description(), 0) + '\n';
  }
  std::string make_subcommand(const CLI::App* command) const override {
    constexpr std::size_t kNames = 10;
    return fmt::format("  {:{}}{}\n", command->get_name(), kNames,
                       wrap(command->get_description(), kNames + 2));
  }
  std::string make_footer(const CLI::App* app) const override {
    std::istringstream lines(CLI::Formatter::make_footer(app));
    std::string result;
    for (std::string line; std::getline(lines, line);)
      result += (display_width(line) > screen_columns() ? wrap(line, 0) : line) + '\n';
    return result;
  }
};

void describe(CLI::App& program) {
  program.formatter(std::make_shared<Help>());
  program.name("rungs");
  program.set_version_flag("--version", fmt::format("rungs {} ({} back end)", RUNGS_VERSION,
                                                    RUNGS_GPU_CUDA != 0 ? "CUDA" : "emulated"));
  program.require_subcommand(0, 1);
  program.footer(
      "Examples:\n"
      "  ./rungs tour --quick                      a shorter climb, then a book\n"
      "  ./rungs train --data my.txt --steps 500   a text of yours\n"
      "  ./rungs bench 07 --json rows.json         one stage's benchmarks\n"
      "  ./rungs list gemm                         rungs and cases of a stage\n"
      "'rungs COMMAND --help' shows a command's options. The script ./rungs builds first, then "
      "calls "
      "this program; 'test' is its own.\n"
      "Coming with later stages: verbs, generate.\n"
      "Exit status: 0 all was done and every check passed; 1 a check failed, or an error ended the "
      "command; 2 the command line or an environment variable is wrong; 130 after Ctrl-C.\n"
      "Environment: RUNGS_EMULATED_SMS, RUNGS_TIMEOUT_SCALE, RUNGS_DATA, NO_COLOR.");
}

int run(int count, char** words) {
  CLI::App program{
      "Climbs from an RDMA work request to a training step in one CUDA graph, rung by rung."};
  describe(program);
  Action chosen;
  add_tour(program, chosen);
  add_train(program, chosen);
  add_bench(program, chosen);
  add_list(program, chosen);
  add_doctor(program, chosen);
  add_launch(program, chosen);
  add_topo(program, chosen);
  add_results(program, chosen);
  add_trace(program, chosen);
  add_test(program, chosen);
  if (count > 1) {
    const std::string complaint = unknown_command(program, words[1]);
    if (!complaint.empty()) return complain(complaint, kUsage);
  }
  try {
    program.parse(count, words);
  } catch (const CLI::Success& help) {  // --help, --version
    return program.exit(help);
  } catch (const CLI::ParseError& error) {
    return complain(usage_error(program, error), kUsage);
  }
  if (!chosen) {
    fmt::print("{}", program.help());
    return 0;
  }
  try {
    (void)timeout_scale();  // a bad RUNGS_TIMEOUT_SCALE is said before any work
  } catch (const Error& error) {
    return complain(error.message(), kUsage);
  }
  return chosen();
}

}  // namespace

void add_test(CLI::App& program, Action& chosen) {
  CLI::App* command = program.add_subcommand("test", "Run all tests (by the script: ./rungs test)");
  command->allow_extras();
  command->callback([&chosen] {
    chosen = [] {
      return complain("the tests are run by the script in the repository's root: ./rungs test",
                      kUsage);
    };
  });
}

}  // namespace rungs::cli

int main(int count, char** words) {
  // Ladders over ranks on one GPU hold more streams than the 8 hardware queues that CUDA takes by
  // default, and a kernel may then stand in a queue behind one that waits for it. Not in the
  // library: every queue costs each process start-up time and memory.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);  // NOLINT(concurrency-mt-unsafe)
  try {
    const int status = rungs::cli::run(count, words);
    rungs::cli::finish_output();  // help and version are written by CLI11, which does not look
    return status;
  } catch (const rungs::cli::UsageError& error) {
    return rungs::cli::complain(error.what(), rungs::cli::kUsage);
  } catch (const rungs::Error& error) {
    return rungs::cli::complain(error.message(), rungs::cli::kFailed);
  } catch (const std::bad_alloc&) {
    return rungs::cli::complain("out of memory. 'rungs doctor' shows what this machine has",
                                rungs::cli::kFailed);
  } catch (const std::exception& error) {
    return rungs::cli::complain(fmt::format("bug: {}", error.what()), rungs::cli::kFailed);
  }
}

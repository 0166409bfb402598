// `rungs list`: stages, operations, rungs and cases.
#include "commands.hpp"
#include "screen.hpp"
#include "stages.hpp"

#include <fmt/format.h>
#include <rungs/core/text.hpp>

#include <algorithm>
#include <memory>

namespace rungs::cli {
namespace {

void list_stages() {
  heading("Stages");
  constexpr std::size_t kFolder = 26;
  constexpr std::size_t kTitle = 44;
  constexpr std::size_t kToday = 20;
  const bool wide = screen_columns() >= 2 + kFolder + 2 + kTitle + 2 + kToday;
  for (const Stage& stage : kStages) {
    const std::string today =
        stage.today.empty() ? faint("to come") : good(std::string(stage.today));
    const std::string text = wide ? pad_right(stage.title, kTitle) + "  " + today
                                  : wrap(fmt::format("{}: {}", stage.title, today), kFolder + 4);
    write(fmt::format("  {}  {}\n", pad_right(stage.folder, kFolder), text));
  }
}

void list_operation(const ladder::Operation& operation) {
  heading(fmt::format("{} · {}", operation.stage.substr(0, 2), operation.name));
  std::size_t width = 0;
  for (const auto& rung : operation.rungs) width = std::max(width, display_width(rung.name));
  for (const auto& rung : operation.rungs) {
    write(fmt::format("  {}  {}\n", pad_right(rung.name, width), wrap(rung.adds, width + 4)));
  }
  for (const bool gpu_only : {false, true}) {
    std::string cases;
    for (const ladder::Case& one : operation.cases) {
      if (one.gpu_only != gpu_only) continue;
      if (!cases.empty()) cases += "; ";
      cases += one.name;
    }
    if (!cases.empty()) paragraph((gpu_only ? "on a GPU also: " : "cases: ") + cases);
  }
  paragraph(
      fmt::format("checked against: {}; allowed: {}", operation.oracle, operation.error_bound));
}

}  // namespace

void add_list(CLI::App& program, Action& chosen) {
  auto word = std::make_shared<std::string>();
  CLI::App* command = program.add_subcommand("list", "Show stages, operations, rungs and cases");
  command->add_option("what", *word,
                      "A stage (07, gemm) or an operation (gemm_bf16); nothing: all");
  command->footer("Example: rungs list 07");
  command->callback([word, &chosen] {
    chosen = [word] {
      const auto operations = find_operations(*word);
      if (word->empty()) list_stages();
      for (const ladder::Operation& operation : operations) list_operation(operation);
      return 0;
    };
  });
}

}  // namespace rungs::cli

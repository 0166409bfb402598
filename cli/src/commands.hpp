#pragma once
/// @file commands.hpp
/// One function a subcommand, one file each: it declares the subcommand's options and sets what it
/// does.

#include <CLI/CLI.hpp>

#include <functional>

namespace rungs::cli {

/// What the chosen subcommand does; returns the exit status. Set while the command line is parsed,
/// run afterwards.
using Action = std::function<int()>;

/// CLI::Range without its text in the help, where it would hide what the option is for.
template <class Number>
CLI::Validator between(Number least, Number most) {
  return CLI::Range(least, most).description("");
}

void add_tour(CLI::App& program, Action& chosen);
void add_train(CLI::App& program, Action& chosen);
void add_bench(CLI::App& program, Action& chosen);
void add_list(CLI::App& program, Action& chosen);
void add_doctor(CLI::App& program, Action& chosen);
void add_launch(CLI::App& program, Action& chosen);
void add_topo(CLI::App& program, Action& chosen);
void add_results(CLI::App& program, Action& chosen);
void add_trace(CLI::App& program, Action& chosen);
/// `test` is the script's; the program says so.
void add_test(CLI::App& program, Action& chosen);

}  // namespace rungs::cli

// `rungs launch -n N -- program`: a program as N ranks on this machine.
#include "commands.hpp"
#include "launcher.hpp"
#include "usage.hpp"

#include <rungs/core/env.hpp>

#include <memory>

namespace rungs::cli {
namespace {

void check(const LaunchPlan& plan) {
  if (plan.node >= plan.nodes) {
    throw UsageError("--node " + std::to_string(plan.node) + " is not one of " +
                     std::to_string(plan.nodes) + " nodes: they are counted from 0");
  }
  if (plan.nodes == 1) return;
  if (plan.master_port == 0) {
    throw UsageError("with several nodes all must name the same --master and --port");
  }
  if (plan.secret.empty()) {
    throw UsageError("with several nodes all need the same secret: set RUNGS_SECRET on each");
  }
}

}  // namespace

void add_launch(CLI::App& program, Action& chosen) {
  auto plan = std::make_shared<LaunchPlan>();
  CLI::App* command = program.add_subcommand("launch", "Run a program as several ranks");
  command->add_option("-n,--ranks", plan->local_ranks, "Ranks on this machine")
      ->required()
      ->check(between(1, 1024));
  command->add_option("--nodes", plan->nodes, "Machines of the job, each with a launcher (1)")
      ->check(between(1, 65536));
  command->add_option("--node", plan->node, "Which of them this is, from 0")
      ->check(between(0, 65535));
  command->add_option("--master", plan->master_address, "Address of node 0 (127.0.0.1)");
  command->add_option("--port", plan->master_port, "Port of rank 0 there; one node: any free one")
      ->check(between(1, 65535));
  command
      ->add_option("--grace", plan->grace_seconds,
                   "Seconds from SIGTERM to SIGKILL after a rank failed (5)")
      ->check(between(0.0, 3600.0));
  command->add_flag_callback(
      "--no-prefix", [plan] { plan->prefix = false; }, "Lines without '[rank N] ' before them");
  command->add_option("program", plan->words, "The program and its arguments, after --")
      ->required();
  command->footer(
      "Each rank has RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT (as\n"
      "torchrun sets them) and RUNGS_SECRET. When one fails the others are ended and its status "
      "is\n"
      "returned.\n"
      "Example: rungs launch -n 4 -- ./my_program --option");
  command->callback([plan, &chosen] {
    chosen = [plan] {
      plan->secret = env::string("RUNGS_SECRET", "");
      check(*plan);
      return launch(*plan);
    };
  });
}

}  // namespace rungs::cli

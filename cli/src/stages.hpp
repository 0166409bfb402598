#pragma once
/// @file stages.hpp
/// The ten stages as the program speaks of them, and the operations that their catalogs bring.

#include <rungs/ladder/operation.hpp>

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace rungs::cli {

struct Stage {
  int number;
  std::string_view folder;  ///< "07_gemm_hopper_blackwell": also what Operation::stage says
  std::string_view title;
  std::string_view today;  ///< what of it is there; empty: nothing yet
};

inline constexpr std::array<Stage, 10> kStages{{
    {1, "01_rdma_verbs", "writing into another computer's memory", "software HCA, RC"},
    {2, "02_bootstrap_topology", "finding each other and the way", "rendezvous, rings"},
    {3, "03_p2p_net_transport", "one send and receive over every path", "four carriers"},
    {4, "04_collectives_ring_tree", "all-reduce and its relatives", "root and ring"},
    {5, "05_protocols_ll_ll128", "cheaper flags", "LL"},
    {6, "06_symmetric_ibgda", "kernels that communicate by themselves", "proxy to IBGDA"},
    {7, "07_gemm_hopper_blackwell", "matrix products at the speed of tensor cores",
     "bf16 on Hopper"},
    {8, "08_flash_attention", "attention that never writes its matrix", "forward and backward"},
    {9, "09_moe_ep_megamoe", "experts on many ranks", "padded and counted"},
    {10, "10_cuda_graph_training", "the training step in one graph", "one to four ranks"},
}};

/// All operations of all stages that are there, lowest stage first.
std::vector<ladder::Operation> all_operations();

/// "07", "7", "gemm", "07_gemm_hopper_blackwell" name a stage; "gemm_bf16" an operation. Empty:
/// everything.
/// @throws UsageError with the nearest match, or saying that the stage is still to come
std::vector<ladder::Operation> find_operations(const std::string& word);

/// "01, 02, 03": the numbers of the stages that have no code yet.
std::string stages_to_come();

}  // namespace rungs::cli

#pragma once
/// @file kernel_table.hpp
/// The kernels a communicator may use, and who picks one. Stages above add theirs: a table is data.

#include <rungs/collectives/kernel_args.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rungs::collectives {

/// What legality and speed depend on.
struct Surroundings {
  int ranks = 1;
  int compute_capability = 90;  ///< the smallest of all ranks: 90 for Hopper
  bool same_device = false;     ///< all ranks share one GPU
  bool peer_mapped = true;      ///< all links are loads and stores into mapped memory
};

/// One kernel: a collective by an algorithm over a protocol, for one dtype and op.
struct KernelEntry {
  Collective what;
  std::string_view algorithm;  ///< "root", "ring"
  ProtocolId protocol;
  DType dtype;  ///< kU8 where nothing is reduced: moves bytes, for every dtype
  Op op;        ///< ignored by collectives that do not reduce
  Kernel kernel;
  unsigned threads;           ///< of a block
  std::size_t slot_bytes;     ///< of a link's slot for this protocol
  std::size_t payload_bytes;  ///< user bytes that one slot carries (LL: half)
  /// Empty if it may be used here; otherwise why not.
  std::string_view (*illegal)(const Surroundings&);
};
using KernelTable = std::span<const KernelEntry>;

/// Ring and root over Simple: f32, bf16, i32 × sum, max, avg. (all_to_all by "ring" goes in pairs.)
KernelTable kernel_table();

/// What a tuner is asked.
struct Question {
  Collective what;
  DType dtype;
  Op op;
  std::size_t
      size_bytes;  ///< all_reduce, broadcast: of the buffer; others: of all ranks' parts together
  Surroundings surroundings;
};

/// Whether the entry computes what is asked; legality apart.
bool serves(const KernelEntry& entry, const Question& question) noexcept;
/// The largest number of channels that still leaves each enough to do.
int channels_for(std::size_t size_bytes, int max_channels) noexcept;

/// A tuner's answer.
struct Choice {
  std::size_t entry = 0;  ///< index into the table
  int channels = 1;
};

class Tuner {
 public:
  virtual ~Tuner() = default;
  /// Asked before every launch: makes no text unless it throws.
  /// @throws Error kUnsupported when no entry serves the question, listing each with its reason
  [[nodiscard]] virtual Choice choose(const Question& question, KernelTable table,
                                      int max_channels) const = 0;
  /// Why choose() takes what it takes, for a log: "ring/LL with 1 channels: 8 us by the model ...".
  /// By default only what that is. @throws Error as choose()
  [[nodiscard]] virtual std::string explain(const Question& question, KernelTable table,
                                            int max_channels) const;
};

/// "ring/LL"
std::string name_of(const KernelEntry& entry);

/// Always this algorithm and protocol: what tests and benches force. "" takes the first legal
/// entry.
/// @param channels 0: channels_for() the size
std::shared_ptr<const Tuner> fixed_tuner(std::string algorithm,
                                         ProtocolId protocol = ProtocolId::kSimple,
                                         int channels = 0);

}  // namespace rungs::collectives

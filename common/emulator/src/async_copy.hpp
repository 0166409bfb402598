#pragma once
/// @file async_copy.hpp
/// A block's cp.async copies: which of a thread's have landed, its groups, and which words of
/// shared memory are still being written.

#include <rungs/emulator/model.hpp>

#include "shared_memory.hpp"

#include <cstdint>
#include <vector>

namespace rungs::emulator {

class AsyncCopies {
 public:
  /// One thread's copies, numbered from 0.
  struct Issuer {
    std::uint64_t issued = 0;
    std::vector<std::uint64_t> in_flight;   // ascending
    std::vector<std::uint64_t> group_ends;  // of committed groups: copies issued up to the end
    /// cp.async.mbarrier.arrive: due when all copies before `after` have landed.
    struct Arrival {
      std::uint64_t after = 0;
      std::uint32_t barrier = 0;
      Location where;
    };
    std::vector<Arrival> arrivals;
    bool waiting = false;
    std::uint64_t awaited = 0;
    char token = 0;  // TSan: what landed is visible to who waits

    /// All copies before this one have landed.
    [[nodiscard]] std::uint64_t landed() const {
      return in_flight.empty() ? issued : in_flight.front();
    }
  };

  void clear() {
    used_ = false;
    if (words_in_flight_ != 0) words_.assign(words_.size(), 0);  // the last launch was aborted
    words_in_flight_ = 0;
  }
  Issuer& issuer(unsigned thread, unsigned thread_count);

  /// Which copy is landing on the four bytes at `offset`; 0: none. Ids are the cluster's.
  [[nodiscard]] std::uint32_t landing(std::uint32_t offset) const {
    return words_in_flight_ != 0 ? words_[offset / 4] : 0;
  }
  /// The first copy that is landing anywhere in [offset, offset + size), or 0.
  [[nodiscard]] std::uint32_t landing(std::uint32_t offset, std::uint32_t size_bytes) const;
  /// `id` 0: it has landed.
  void set_landing(std::uint32_t offset, std::uint32_t size_bytes, std::uint32_t id);

 private:
  bool used_ = false;
  std::uint32_t words_in_flight_ = 0;
  std::vector<Issuer> issuers_;
  std::vector<std::uint32_t> words_;
};

struct Block;
/// For a warp's access to shared memory by ldmatrix and stmatrix: reports bounds, and a copy of any
/// kind that is still landing there.
void check_shared_access(Block& block, std::uint32_t offset, std::uint32_t size_bytes,
                         const char* instruction, bool write, Location where);

}  // namespace rungs::emulator

#pragma once
/// @file rung.hpp
/// A rung: one implementation of an operation. All rungs of an operation share one Args type and
/// one contract; the naive one comes first.

#include <rungs/config.hpp>
#include <rungs/gpu/device.hpp>

#include <memory>
#include <optional>
#include <string_view>

namespace rungs::ladder {

/// What the rungs run on.
struct Machine {
  const gpu::Device* device = nullptr;
  int ranks = 1;
};

/// Whether a rung can serve a call, and if not, why not (a sentence for the reader).
struct Support {
  bool ok = true;
  std::string_view reason;
};

/// A call made ready: owns plans, workspaces and tensor maps, so that timing sees only the work.
class Prepared {
 public:
  virtual ~Prepared() = default;
  /// Enqueues the operation. Host stages ignore the stream. Capturable for GPU operations of one
  /// rank; an operation of several ranks runs all of them (RankTeam) and returns when they are
  /// done.
  virtual void operator()(gpu::StreamHandle stream) = 0;
  /// Operations of several ranks measure themselves, since no one stream sees all of the work:
  /// seconds a run, the slowest rank's. Nothing: the harness times operator().
  virtual std::optional<double> time_once() { return std::nullopt; }
};

/// One row of a ladder.
template <class Args>
struct Rung {
  std::string_view name;  ///< "tma_wgmma"
  std::string_view adds;  ///< the one idea: "TMA fills a ring of stages while wgmma drains it"
  Support (*supports)(const Args&, const Machine&);
  std::unique_ptr<Prepared> (*prepare)(const Args&, const Machine&);
};

}  // namespace rungs::ladder

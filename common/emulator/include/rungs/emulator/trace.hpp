#pragma once
/// @file trace.hpp
/// Recording one launch: what its warps did and waited for, when asynchronous work was issued and
/// landed, and counts of it all. As Perfetto's JSON or as a picture.
///
/// The emulator has no time. A trace's axis is a logical clock (Lamport's): a wrapped instruction
/// takes a thread one step; a wait that ends hands the thread the time at which what it waited for
/// happened; work that lands takes the step after everything executed so far (landing late or at
/// random) or the step after its issue (landing early). So what stands to the right may depend on
/// what stands left of it, and steps measure order, never duration. Code between wrapped
/// instructions takes no step. Clocks of different clusters are not related.

#include <rungs/config.hpp>
#include <rungs/emulator/device.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rungs::emulator::trace {

/// A time on the logical clock, in steps since the block's start.
using Step = std::uint64_t;
/// Names and values that explain a slice.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// What a slice shows; the picture's colours go by it.
enum class What : std::uint8_t {
  kInstruction,     ///< a warp executes a wrapped instruction
  kWait,            ///< a warp waits
  kCopy,            ///< an asynchronous copy is under way, from issue to landing
  kMultiplication,  ///< a tensor-core instruction is under way
  kGroup,           ///< a committed group is under way
  kPhase,           ///< a phase of an mbarrier, or of the cluster barrier
};

struct Slice {
  What what{};
  Step begin = 0;
  Step end = 0;             ///< above begin
  bool unfinished = false;  ///< it had not ended when the launch did
  int mbarrier = -1;        ///< a wait: Track::owner of the mbarrier that it waits for
  std::string name;
  Facts facts;
};

/// Something that happens at one step of a track: an arrival, bytes that land.
struct Mark {
  Step at = 0;
  std::string name;
};

/// A line of the timeline. Its slices are in order and do not overlap.
struct Track {
  What what{};         ///< of its slices (a warp's: kInstruction)
  unsigned owner = 0;  ///< warp, warpgroup or mbarrier it belongs to
  std::string name;
  std::vector<Slice> slices;
  std::vector<Mark> marks;
};

/// From where work was issued to where it landed.
struct Arrow {
  std::size_t from_track = 0;
  Step from = 0;
  std::size_t to_track = 0;
  Step to = 0;  ///< above from
};

/// The timeline of one block.
struct Cta {
  Index3 index;
  std::vector<Track> tracks;
  std::vector<Arrow> arrows;
  std::size_t dropped = 0;  ///< events that came after Request::most_events
};

struct InstructionCount {
  std::string name;
  std::uint64_t warps = 0;    ///< warp instructions: lanes that execute it together count once
  std::uint64_t threads = 0;  ///< the same by threads
};

struct AsyncCount {
  std::string name;
  std::uint64_t operations = 0;
  std::uint64_t bytes = 0;  ///< as landed: a multicast copy once in every destination
};

/// Accesses to shared memory through wrappers. A plain C++ load or store is not seen.
struct BankCount {
  std::string name;
  std::uint64_t accesses = 0;    ///< warp instructions
  std::uint64_t wavefronts = 0;  ///< passes through the 32 banks that they take
  std::uint64_t ideal = 0;       ///< passes without conflicts
};

/// Of the whole launch, blocks without a timeline included.
struct Totals {
  std::uint64_t blocks = 0;
  std::uint64_t threads = 0;
  std::uint64_t mma_flops = 0;
  std::uint64_t barriers = 0;  ///< block, named and cluster barriers, mbarrier phases
  std::uint64_t fiber_switches = 0;
  std::vector<InstructionCount> instructions;  ///< by name
  std::vector<AsyncCount> asynchronous;        ///< by name
  std::vector<BankCount> banks;                ///< by name
};

struct Trace {
  std::string kernel;
  Index3 grid, block, cluster;
  std::string schedule;  ///< "late", "random, seed 3"
  std::string report;    ///< of a launch that failed; its timeline ends there
  std::vector<Cta> ctas;
  Totals totals;
};

/// Which launch, and which of its blocks.
struct Request {
  std::string kernel;        ///< only launches of this name; empty: any
  std::uint64_t launch = 1;  ///< the n-th of them from now on; 0: each, the last is kept
  std::optional<Index3> cta = Index3{};  ///< the block with a timeline; none: all blocks
  std::size_t most_events = 200'000;     ///< of the timeline; what comes later is only counted
};

/// Traces one launch of the process, on any device. One session at a time.
class Session {
 public:
  /// @throws Error kInvalidArgument if there is a session already
  explicit Session(Request request);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// The kernels launched since, in order; those of another name too.
  [[nodiscard]] std::vector<std::string> launched() const;
  /// The trace; nothing if the launch did not come or has not ended. Once.
  [[nodiscard]] std::optional<Trace> take();

  struct State;

 private:
  std::shared_ptr<State> state_;
};

/// The trace in Chrome's trace-event format, which ui.perfetto.dev and chrome://tracing open. One
/// step is shown as one microsecond.
std::string to_json(const Trace& trace);

struct PictureOptions {
  Step from = 0;
  Step to = 0;  ///< 0: the end
  int width = 1200;
};
/// A picture of one block, as SVG. Warps that do the same at the same steps are drawn once.
/// @throws Error kInvalidArgument for an empty range
std::string to_svg(const Trace& trace, const Cta& cta, const PictureOptions& options = {});

/// Passes through the banks that one warp's access takes: accesses of 4 bytes or less in one pass
/// of 32 lanes, of 8 in two, of 16 in four; a bank gives one 4-byte word a pass, to all who ask for
/// it.
/// @param addresses shared-memory byte offsets of the lanes  @param mask lanes that take part
/// @param size_bytes of a lane's access: 1, 2, 4, 8 or 16
/// @param ideal set to the passes without conflicts
unsigned bank_wavefronts(const std::uint32_t (&addresses)[32], std::uint32_t mask,
                         unsigned size_bytes, unsigned* ideal);

}  // namespace rungs::emulator::trace

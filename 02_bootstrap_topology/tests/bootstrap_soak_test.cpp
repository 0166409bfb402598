// Random schedules of all calls, the same at every rank, each rank at its own pace.

#include "bootstrap_support.hpp"

#include <rungs/testing/random.hpp>

namespace rungs::bootstrap::test {
namespace {

using rungs::testing::Random;

struct Step {
  enum class Kind { kAllGather, kBarrier, kMessages } kind;
  std::size_t size_bytes = 0;
  struct Message {
    int from;
    int to;
    std::uint64_t tag;
    std::size_t size_bytes;
  };
  std::vector<Message> messages;
};

std::vector<Step> schedule(int ranks, std::uint64_t seed, int steps) {
  Random random(seed);
  const auto size = [&] {
    const std::uint64_t magnitude = random.below(18);
    return static_cast<std::size_t>(random.below((std::uint64_t{1} << magnitude) + 1));
  };
  std::vector<Step> all;
  for (int i = 0; i < steps; ++i) {
    Step step{Step::Kind(random.below(3)), size(), {}};
    const auto rank = [&] { return int(random.below(static_cast<std::uint64_t>(ranks))); };
    if (step.kind == Step::Kind::kMessages) {
      for (std::uint64_t k = random.below(12); k > 0; --k)
        step.messages.push_back({rank(), rank(), random.below(4), size()});
    }
    all.push_back(std::move(step));
  }
  return all;
}

unsigned content_seed(std::size_t step, std::size_t index) {
  return static_cast<unsigned>(step * 100 + index + 1);
}

void run_step(Group& group, const Step& step, std::size_t number, Random& pace) {
  const auto rank = static_cast<std::size_t>(group.rank());
  if (step.kind == Step::Kind::kBarrier) return group.barrier();
  if (step.kind == Step::Kind::kAllGather) {
    std::vector<std::byte> all(step.size_bytes * static_cast<std::size_t>(group.size()));
    group.all_gather(bytes_of(step.size_bytes, content_seed(number, rank)), all);
    for (std::size_t r = 0; r < static_cast<std::size_t>(group.size()); ++r) {
      const std::vector<std::byte> expected = bytes_of(step.size_bytes, content_seed(number, r));
      require(std::equal(expected.begin(), expected.end(),
                         all.begin() + static_cast<std::ptrdiff_t>(r * step.size_bytes)),
              concat("block of rank ", r, " in step ", number));
    }
    return;
  }
  // Messages of one pair and tag arrive in order, all others in whatever order they are asked for.
  std::vector<std::size_t> mine;
  for (std::size_t i = 0; i < step.messages.size(); ++i) {
    const Step::Message& message = step.messages[i];
    if (message.from == group.rank())
      group.send(message.to, message.tag, bytes_of(message.size_bytes, content_seed(number, i)));
    if (message.to == group.rank()) mine.push_back(i);
  }
  const auto same_queue = [&](std::size_t a, std::size_t b) {
    return step.messages[a].from == step.messages[b].from &&
           step.messages[a].tag == step.messages[b].tag;
  };
  while (!mine.empty()) {
    const std::size_t pick = pace.below(mine.size());
    const auto first = std::find_if(mine.begin(), mine.end(),
                                    [&](std::size_t i) { return same_queue(i, mine[pick]); });
    const Step::Message& message = step.messages[*first];
    require(group.receive(message.from, message.tag) ==
                bytes_of(message.size_bytes, content_seed(number, *first)),
            concat("message ", *first, " of step ", number));
    mine.erase(first);
  }
}

struct Soak {
  int ranks;
  std::uint64_t seed;
  AllGather form;
  bool processes;
};
class BootstrapSoak : public BootstrapTest, public ::testing::WithParamInterface<Soak> {};

TEST_P(BootstrapSoak, EverythingArrives) {
  const Soak& soak = GetParam();
  const std::vector<Step> steps = schedule(soak.ranks, soak.seed, 150);
  GroupOptions options;
  options.all_gather = soak.form;
  const auto body = [&](Group& group) {
    Random pace(soak.seed * 1000 + static_cast<std::uint64_t>(group.rank()));
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (pace.below(20) == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(pace.below(2000)));
      run_step(group, steps[i], i, pace);
    }
    group.barrier();
  };
  const auto outcomes = soak.processes ? run_group_processes(soak.ranks, options, body)
                                       : run_group(soak.ranks, options, body);
  EXPECT_EQ(failures(outcomes), "");
}

INSTANTIATE_TEST_SUITE_P(
    , BootstrapSoak,
    ::testing::Values(Soak{2, 1, AllGather::kRing, false}, Soak{3, 2, AllGather::kBothWays, false},
                      Soak{5, 3, AllGather::kStar, false}, Soak{8, 4, AllGather::kRing, false},
                      Soak{4, 5, AllGather::kRing, true}, Soak{5, 6, AllGather::kBothWays, true}),
    [](const auto& tested) {
      return concat(tested.param.processes ? "processes" : "threads", '_', tested.param.ranks,
                    "_seed_", tested.param.seed);
    });

class BootstrapLife : public BootstrapTest {};

// Groups come and go: what the fixture counts afterwards is what they left behind.
TEST_F(BootstrapLife, GroupsComeAndGo) {
  for (int round = 0; round < 15; ++round) {
    const auto outcomes = run_group(1 + round % 5, {}, [&](Group& group) {
      (void)group.all_gather(round);
      if (round % 3 == 0) group.send((group.rank() + 1) % group.size(), 1, bytes_of(5000, 1));
      if (round % 4 == 0) group.send_fd(group.rank(), 2, 0);  // never received: closed all the same
      group.barrier();  // a message to a rank that has left is an error
    });
    EXPECT_EQ(failures(outcomes), "");
  }
}

}  // namespace
}  // namespace rungs::bootstrap::test

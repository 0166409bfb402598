// `rungs launch` as a user meets it: ranks, lines, failures, signals.
#include "program.hpp"

#include <chrono>
#include <csignal>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

namespace rungs::cli {
namespace {

std::multiset<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::multiset<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.insert(line);
  return lines;
}

bool alive(const std::string& pid_file) {
  const pid_t process = std::stoi(read_file(pid_file));
  // A zombie that init has not reaped yet is no running process.
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string id, name, state;
  return static_cast<bool>(stat >> id >> name >> state) && state != "Z";
}

bool wait_for_file(const std::string& path) {
  for (int i = 0; i < 500; ++i) {
    if (std::ifstream(path).peek() != std::ifstream::traits_type::eof()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

TEST(Launch, GivesEachRankItsPlace) {
  const Ended ended = run({"launch", "-n", "3", "--", "sh", "-c",
                           "echo $RANK of $WORLD_SIZE, local $LOCAL_RANK of $LOCAL_WORLD_SIZE at "
                           "$MASTER_ADDR; test ${#RUNGS_SECRET} = 32 && test $MASTER_PORT -gt 0"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(lines_of(ended.out),
            (std::multiset<std::string>{"[rank 0] 0 of 3, local 0 of 3 at 127.0.0.1",
                                        "[rank 1] 1 of 3, local 1 of 3 at 127.0.0.1",
                                        "[rank 2] 2 of 3, local 2 of 3 at 127.0.0.1"}));
}

TEST(Launch, CountsRanksOverNodes) {
  const Ended ended = run({"launch", "-n", "2", "--nodes", "3", "--node", "1", "--master",
                           "10.1.2.3", "--port", "4444", "--no-prefix", "--", "sh", "-c",
                           "echo $RANK/$WORLD_SIZE $MASTER_ADDR:$MASTER_PORT $RUNGS_SECRET"},
                          {"RUNGS_SECRET=abc"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(lines_of(ended.out),
            (std::multiset<std::string>{"2/6 10.1.2.3:4444 abc", "3/6 10.1.2.3:4444 abc"}));
}

TEST(Launch, LinesStayWhole) {
  const Ended ended = run({"launch", "-n", "4", "--", "sh", "-c",
                           "i=0; while [ $i -lt 300 ]; do echo abcdefghijklmnopqrstuvwxyz; "
                           "i=$((i+1)); done; printf 'no end'; echo to stderr >&2"});
  EXPECT_EQ(ended.status, 0);
  const auto lines = lines_of(ended.out);
  for (const char rank : {'0', '1', '2', '3'}) {
    const std::string prefix = std::string("[rank ") + rank + "] ";
    EXPECT_EQ(lines.count(prefix + "abcdefghijklmnopqrstuvwxyz"), 300u);
    EXPECT_EQ(lines.count(prefix + "no end"), 1u);
    EXPECT_EQ(lines_of(ended.err).count(prefix + "to stderr"), 1u);
  }
  EXPECT_EQ(lines.size(), 4u * 301u);
}

TEST(Launch, AFailingRankEndsTheOthersAndItsStatusIsReturned) {
  const Folder folder;
  const Ended ended = run(
      {"launch", "-n", "3", "--", "sh", "-c",
       "echo $$ > " + folder.file("pid") + "$RANK; if [ $RANK = 1 ]; then exit 7; fi; sleep 600"});
  EXPECT_EQ(ended.status, 7);
  EXPECT_TRUE(contains(ended.err, {"rank 1", "exit status 7"}));
  EXPECT_FALSE(alive(folder.file("pid1")));
  for (const char* name : {"pid0", "pid2"}) {
    std::ifstream file(folder.file(name));
    if (!file) continue;  // it may have been ended before it wrote
    EXPECT_FALSE(alive(folder.file(name))) << name;
  }
}

TEST(Launch, ARankThatIgnoresSigtermIsKilled) {
  const Folder folder;
  const Ended ended = run({"launch", "-n", "2", "--grace", "0.3", "--", "sh", "-c",
                           "trap '' TERM; echo $$ > " + folder.file("pid") +
                               "$RANK; if [ $RANK = 0 ]; then while [ ! -s " + folder.file("pid1") +
                               " ]; do :; done; kill -9 $$; fi; while :; do sleep 1; done"});
  EXPECT_EQ(ended.status, 128 + SIGKILL);
  EXPECT_TRUE(contains(ended.err, {"rank 0", "signal 9"}));
  EXPECT_FALSE(alive(folder.file("pid1")));
}

TEST(Launch, SignalsAreHandedOn) {
  const Folder folder;
  Program program({"launch", "-n", "2", "--", "sh", "-c",
                   "trap 'echo got it; exit 0' TERM; echo $$ > " + folder.file("pid") +
                       "$RANK; while :; do sleep 0.05; done"});
  ASSERT_TRUE(wait_for_file(folder.file("pid0")));
  ASSERT_TRUE(wait_for_file(folder.file("pid1")));
  program.send(SIGTERM);
  const Ended ended = program.wait();
  EXPECT_EQ(ended.status, 128 + SIGTERM);
  EXPECT_EQ(lines_of(ended.out),
            (std::multiset<std::string>{"[rank 0] got it", "[rank 1] got it"}));
}

TEST(Launch, RanksDoNotOutliveTheLauncher) {
  const Folder folder;
  Program program({"launch", "-n", "2", "--", "sh", "-c",
                   "echo $$ > " + folder.file("pid") + "$RANK; exec sleep 600"});
  ASSERT_TRUE(wait_for_file(folder.file("pid0")));
  ASSERT_TRUE(wait_for_file(folder.file("pid1")));
  program.send(SIGKILL);
  EXPECT_EQ(program.wait().status, 1000 + SIGKILL);
  for (int i = 0; i < 250 && (alive(folder.file("pid0")) || alive(folder.file("pid1"))); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_FALSE(alive(folder.file("pid0")));
  EXPECT_FALSE(alive(folder.file("pid1")));
}

TEST(Launch, RefusesWhatCannotBe) {
  const Ended missing = run({"launch", "-n", "2", "--", "./no-such-program"});
  EXPECT_EQ(missing.status, 1);
  EXPECT_TRUE(contains(missing.err, {"./no-such-program", "No such file"}));
  EXPECT_EQ(run({"launch", "-n", "0", "--", "true"}).status, 2);
  EXPECT_EQ(run({"launch", "--", "true"}).status, 2);
  EXPECT_EQ(run({"launch", "-n", "2"}).status, 2);
  const Ended node = run({"launch", "-n", "1", "--nodes", "2", "--node", "2", "--", "true"});
  EXPECT_EQ(node.status, 2);
  EXPECT_TRUE(contains(node.err, {"--node 2", "2 nodes"}));
  const Ended secret = run({"launch", "-n", "1", "--nodes", "2", "--port", "4000", "--", "true"});
  EXPECT_EQ(secret.status, 2);
  EXPECT_TRUE(contains(secret.err, {"RUNGS_SECRET"}));
}

}  // namespace
}  // namespace rungs::cli

#include <rungs/core/progress.hpp>

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace rungs {
namespace {

// A bar that writes to a string and whose clock the test turns.
class Bar : public ::testing::Test {
 protected:
  ProgressOptions options(bool terminal) {
    ProgressOptions result;
    result.out = &out_;
    result.terminal = terminal;
    result.color = false;
    result.unicode = false;
    result.columns = 61;
    result.clock = [this] { return now_; };
    return result;
  }
  std::string take() {
    std::string text = out_.str();
    out_.str("");
    return text;
  }
  std::ostringstream out_;
  double now_ = 100;
};

TEST_F(Bar, PlainLinesOnlyNowAndThen) {
  Progress bar("train", 250, options(false));
  EXPECT_EQ(take(), "");
  now_ += 4;
  bar.update(50, "loss 2.9");
  EXPECT_EQ(take(), "");
  now_ += 2;
  bar.update(60, "loss 2.8");
  EXPECT_EQ(take(), "train:  24 %  60/250  0:19 left  loss 2.8\n");
  bar.update(61, "loss 2.7");
  EXPECT_EQ(take(), "");
  now_ += 60;
  bar.update(250);
  take();
  bar.finish("loss 2.4");
  EXPECT_EQ(take(), "train: 100 %  250/250  in 1:06  loss 2.4\n");
}

TEST_F(Bar, NothingAfterFinish) {
  {
    Progress bar("x", 10, options(true));
    bar.finish();
    take();
    now_ += 100;
    bar.update(5);
    bar.finish("again");
  }
  EXPECT_EQ(take(), "");
}

TEST_F(Bar, TerminalRedrawsOneLine) {
  Progress bar("run", 4, options(true));
  EXPECT_EQ(take(), "\r\x1b[Krun ..............................   0 %  0/4");
  now_ += 0.05;
  bar.update(1);
  EXPECT_EQ(take(), "") << "redrawn too soon";
  now_ += 1.95;
  bar.update(2, "ok");
  EXPECT_EQ(take(), "\r\x1b[Krun ###############...............  50 %  2/4  0:02 left  ok");
  bar.update(4);
  bar.finish("done");
  EXPECT_EQ(take(), "\r\x1b[Krun ############################## 100 %  4/4  in 0:02  done\n");
}

TEST_F(Bar, LinesNeverReachTheLastColumn) {
  ProgressOptions narrow = options(true);
  narrow.columns = 20;
  Progress bar("label", 1000, narrow);
  take();
  now_ += 1;
  bar.update(500, "a suffix that does not fit at all");
  const std::string line = take();
  EXPECT_EQ(line, "\r\x1b[Klabel  50 %  500/1…");
}

TEST_F(Bar, ColorsOnlyWhenAsked) {
  ProgressOptions colored = options(true);
  colored.color = true;
  colored.unicode = true;
  Progress bar("x", 2, colored);
  take();
  now_ += 1;
  bar.update(1);
  const std::string line = take();
  EXPECT_NE(line.find("\x1b[32m━"), std::string::npos) << line;
  EXPECT_NE(line.find("─\x1b[0m"), std::string::npos) << line;
}

TEST_F(Bar, UnknownTotalShowsCountAndTime) {
  Progress bar("read", 0, options(false));
  now_ += 6;
  bar.update(17);
  EXPECT_EQ(take(), "read: 17  0:06\n");
}

TEST_F(Bar, DestructorEndsTheLineWithWhatWasDone) {
  {
    Progress bar("x", 10, options(true));
    now_ += 3;
    bar.update(3, "s");
    take();
  }
  EXPECT_EQ(take(), "\r\x1b[Kx #########.....................  30 %  3/10  in 0:03  s\n");
}

}  // namespace
}  // namespace rungs

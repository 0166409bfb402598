#include <rungs/core/error.hpp>
#include <rungs/core/suggest.hpp>
#include <rungs/core/table.hpp>
#include <rungs/core/text.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace rungs {
namespace {

TEST(Text, WidthCountsColumns) {
  EXPECT_EQ(display_width(""), 0u);
  EXPECT_EQ(display_width("abc"), 3u);
  EXPECT_EQ(display_width("µs"), 2u);
  EXPECT_EQ(display_width("rank 进程"), 9u);
  EXPECT_EQ(display_width("e\xcc\x81"), 1u);  // e and a combining acute accent
  EXPECT_EQ(display_width("a\xff\xe4"), 3u);  // no UTF-8: a byte a column
}

TEST(Text, CuttingKeepsCharactersWhole) {
  EXPECT_EQ(cut_to_width("short", 10), "short");
  EXPECT_EQ(cut_to_width("longer", 4), "lon…");
  EXPECT_EQ(cut_to_width("进程进程", 4), "进…");
  EXPECT_EQ(cut_to_width("abc", 0), "");
  EXPECT_EQ(pad_left("µs", 4), "  µs");
  EXPECT_EQ(pad_right("µs", 4), "µs  ");
  EXPECT_EQ(pad_right("long", 2), "long");
}

TEST(Text, Numbers) {
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(81.3e-6), "81.3 µs");
  EXPECT_EQ(format_seconds(2.5), "2.50 s");
  EXPECT_EQ(format_seconds(0.9999), "1.00 s");
  EXPECT_EQ(format_seconds(3e-12), "0.00 ns");
  EXPECT_EQ(format_seconds(std::numeric_limits<double>::quiet_NaN()), "–");
  EXPECT_EQ(format_quantity(3.1e12, "FLOP/s"), "3.10 TFLOP/s");
  EXPECT_EQ(format_quantity(999.9e6, "B"), "1.00 GB");
  EXPECT_EQ(format_quantity(512, "B"), "512 B");
  EXPECT_EQ(format_quantity(3100, ""), "3.10 k");
  EXPECT_EQ(format_clock(7), "0:07");
  EXPECT_EQ(format_clock(750), "12:30");
  EXPECT_EQ(format_clock(3750), "1:02:30");
  EXPECT_EQ(format_clock(-1), "–");
}

TEST(Table, NumbersAreAlignedRight) {
  const std::string text = Table({"rung", "time", "checked"})
                               .add_row({"naive", "80.1 ms", "yes"})
                               .add_row({"tma_wgmma", "7.9 µs", "yes"})
                               .add_row({"进程", "–", ""})
                               .to_string();
  EXPECT_EQ(text,
            "rung          time  checked\n"
            "---------  -------  -------\n"
            "naive      80.1 ms  yes\n"
            "tma_wgmma   7.9 µs  yes\n"
            "进程             –\n");
}

TEST(Table, IndentAndLineBreaks) {
  EXPECT_EQ(Table({"a", "b"}).add_row({"two\nlines", "x"}).to_string(2),
            "  a          b\n"
            "  ---------  -\n"
            "  two lines  x\n");
  EXPECT_EQ(Table({"only"}).to_string(), "only\n----\n");
}

TEST(Table, ShapesAreNoNumbers) {
  EXPECT_EQ(
      Table({"case", "error"}).add_row({"8x8", "9.5e-05"}).add_row({"128x64", "0.1"}).to_string(),
      "case      error\n"
      "------  -------\n"
      "8x8     9.5e-05\n"
      "128x64      0.1\n");
}

TEST(Table, BreaksBetweenWordsToFit) {
  const Table table = Table({"case", "emulation time", "verdict"})
                          .add_row({"193x129x130, beta 0.5, bf16", "3.03 ms", "within noise"})
                          .add_row({"512x256x256", "28.8 ms", "same"});
  EXPECT_EQ(table.to_string(2, 40),
            "  case            emulation  verdict\n"
            "                       time\n"
            "  ------------  -----------  -----------\n"
            "  193x129x130,      3.03 ms  within\n"
            "  beta 0.5,                  noise\n"
            "  bf16\n"
            "  512x256x256       28.8 ms  same\n");
  for (std::size_t columns = 1; columns < 80; ++columns) {
    // Nothing is lost, and no word is broken, however narrow the screen.
    const std::string text = table.to_string(0, columns);
    for (const char* word : {"emulation", "193x129x130,", "0.5,", "3.03 ms", "28.8 ms", "within"})
      EXPECT_NE(text.find(word), std::string::npos) << text;
  }
  EXPECT_EQ(Table({"ab", "cd"}).add_row({"x", "y"}).to_string(0, 5), "ab cd\n-- --\nx  y\n");
  EXPECT_EQ(table.to_string(2, 80), table.to_string(2));
}

TEST(Table, WrongNumberOfCellsIsRefused) {
  EXPECT_THROW(Table({"a", "b"}).add_row({"1"}), Error);
  EXPECT_THROW(Table(std::vector<std::string>{}), Error);
}

TEST(Suggest, DistanceCountsSwapsOnce) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("train", "tarin"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("TOUR", "tour"), 0u);
  EXPECT_EQ(edit_distance("ca", "abc"),
            3u);  // optimal string alignment, not the unrestricted distance (2)
}

TEST(Suggest, NearestOrNothing) {
  const std::vector<std::string> words{"tour", "train", "test", "bench", "doctor"};
  EXPECT_EQ(nearest("trian", words), "train");
  EXPECT_EQ(nearest("tuor", words), "tour");
  EXPECT_EQ(nearest("doc", words), "doctor");
  EXPECT_EQ(nearest("b", words), "bench");
  EXPECT_EQ(nearest("t", words), std::nullopt);  // three begin with it
  EXPECT_EQ(nearest("xylophone", words), std::nullopt);
  EXPECT_EQ(nearest("", words), std::nullopt);
  EXPECT_EQ(did_you_mean("trian", words), "; did you mean 'train'?");
  EXPECT_EQ(did_you_mean("zzz", words), "");
}

}  // namespace
}  // namespace rungs

// A picture of one block's timeline: warps above, the copies and multiplications that they started
// below, and the mbarriers between them at the bottom.

#include <rungs/emulator/trace.hpp>

#include <rungs/core/error.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

namespace rungs::emulator::trace {
namespace {

constexpr int kLabels = 190;  // pixels left of the axis
constexpr int kHead = 44;
constexpr double kWideStep = 40;  // pixels a step from which on instructions are named
constexpr double kLetter = 5.6;   // of the small text, on average

constexpr std::string_view kBusy = "#7b8794";
constexpr std::string_view kWaiting = "#eceff3";
constexpr std::string_view kCopying = "#2f9e62";
constexpr std::string_view kMultiplying = "#e08a1e";
constexpr std::string_view kSignalling = "#7d5bbf";
constexpr std::string_view kPhases[2] = {"#c9d7f2", "#9db8e8"};

std::string_view colour_of(const Slice& slice) {
  const std::string_view name = slice.name;
  switch (slice.what) {
    case What::kWait:
      return kWaiting;
    case What::kCopy:
      return kCopying;
    case What::kMultiplication:
    case What::kGroup:
      return kMultiplying;
    case What::kPhase:
      return kPhases[name.ends_with('1') || name.ends_with('3') || name.ends_with('5') ||
                     name.ends_with('7') || name.ends_with('9')];
    case What::kInstruction:
      break;
  }
  if (name.starts_with("cp.async")) return kCopying;
  if (name.starts_with("wgmma") || name.starts_with("mma")) return kMultiplying;
  if (name.starts_with("mbarrier.arrive") || name.starts_with("mbarrier.expect"))
    return kSignalling;
  return kBusy;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else {
      result += c;
    }
  }
  return result;
}

std::string pixels(double value) {
  std::string text = concat(std::round(value * 10) / 10);
  return text;
}

/// What a bar says if there is room.
std::string short_name(const Slice& slice) {
  const std::string_view name = slice.name;
  if (slice.what == What::kCopy) {
    std::string at;
    for (const auto& [key, value] : slice.facts) {
      if (key.size() == 1) at += concat(at.empty() ? "" : ", ", key, " ", value);  // x, y, z, ...
    }
    return at.empty() ? slice.name : at;
  }
  if (slice.mbarrier >= 0) {
    const std::size_t phase = name.rfind("phase");
    return concat("waits: M", slice.mbarrier, " ",
                  phase == std::string_view::npos ? "" : name.substr(phase));
  }
  return slice.name;
}

class Picture {
 public:
  Picture(const Cta& cta, const PictureOptions& options) : cta_(cta), options_(options) {
    for (const Track& track : cta.tracks) {
      if (!track.slices.empty()) to_ = std::max(to_, track.slices.back().end);
    }
    if (options.to != 0) to_ = options.to;
    RUNGS_REQUIRE(options.from < to_, "a picture of steps ", options.from, " to ", to_,
                  " shows nothing");
    scale_ = (options.width - kLabels - 10) / static_cast<double>(to_ - options.from);
  }

  std::string draw(const Trace& trace) {
    add_warps();
    y_ += 6;
    add_kind(What::kCopy, 10);
    const bool groups = std::any_of(cta_.tracks.begin(), cta_.tracks.end(),
                                    [](const Track& track) { return track.what == What::kGroup; });
    add_kind(groups ? What::kGroup : What::kMultiplication, 12);
    y_ += 6;
    add_kind(What::kPhase, 12);
    const std::string head =
        concat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", options_.width, "\" height=\"",
               y_ + 34, "\" viewBox=\"0 0 ", options_.width, " ", y_ + 34,
               "\" font-family=\"sans-serif\" font-size=\"10\">\n<rect width=\"100%\" "
               "height=\"100%\" fill=\"white\"/>\n");
    text_at(4, 16,
            concat(trace.kernel, ", block (", cta_.index.x, ",", cta_.index.y, ",", cta_.index.z,
                   "); asynchronous work lands ", trace.schedule),
            "font-size=\"13\" font-weight=\"bold\"");
    add_axis();
    add_legend();
    return concat(head, body_, "</svg>\n");
  }

 private:
  [[nodiscard]] double x_of(Step step) const {
    const Step inside = std::clamp(step, options_.from, to_);
    return kLabels + static_cast<double>(inside - options_.from) * scale_;
  }

  void text_at(double x, double y, std::string_view text, std::string_view style = "") {
    body_ += concat("<text x=\"", pixels(x), "\" y=\"", pixels(y), "\"", style.empty() ? "" : " ",
                    style, ">", escaped(text), "</text>\n");
  }

  void bar(Step begin, Step end, int height, std::string_view colour, std::string_view text,
           bool unfinished) {
    if (end <= options_.from || begin >= to_) return;
    const double x = x_of(begin);
    const double width = x_of(end) - x;
    body_ +=
        concat("<rect x=\"", pixels(x), "\" y=\"", y_, "\" width=\"",
               pixels(std::max(width - 0.4, 0.4)), "\" height=\"", height - 2, "\" fill=\"", colour,
               "\"", unfinished ? " stroke=\"#c0392b\" stroke-dasharray=\"3\"" : "", "/>\n");
    if (static_cast<double>(text.size()) * kLetter + 4 > width) return;
    const bool dark = colour != kWaiting && colour != kPhases[0] && colour != kPhases[1];
    text_at(x + 2, y_ + height - 4, text,
            dark ? "font-size=\"9\" fill=\"white\"" : "font-size=\"9\" fill=\"#444\"");
  }

  /// The slices of a row; neighbours of one colour that carry no text become one bar.
  void row(const Track& track, int height) {
    const auto& slices = track.slices;
    for (std::size_t i = 0; i < slices.size();) {
      const Slice& first = slices[i];
      const std::string_view colour = colour_of(first);
      Step end = first.end;
      std::size_t next = i + 1;
      while (first.what == What::kInstruction && scale_ < kWideStep && next < slices.size() &&
             slices[next].what == What::kInstruction && slices[next].begin == end &&
             colour_of(slices[next]) == colour) {
        end = slices[next++].end;
      }
      const bool named = first.what != What::kInstruction || scale_ >= kWideStep;
      bar(first.begin, end, height, colour, named ? short_name(first) : "", first.unfinished);
      i = next;
    }
    y_ += height;
  }

  static bool same(const Track& a, const Track& b) {
    return std::equal(a.slices.begin(), a.slices.end(), b.slices.begin(), b.slices.end(),
                      [](const Slice& x, const Slice& y) {
                        return x.begin == y.begin && x.end == y.end && x.name == y.name;
                      });
  }

  void add_warps() {
    std::vector<const Track*> warps;
    for (const Track& track : cta_.tracks) {
      if (track.what == What::kInstruction) warps.push_back(&track);
    }
    for (std::size_t i = 0; i < warps.size();) {
      std::size_t next = i + 1;
      while (next < warps.size() && same(*warps[i], *warps[next])) next++;
      const unsigned first = warps[i]->owner;
      const unsigned last = warps[next - 1]->owner;
      text_at(4, y_ + 13,
              first == last ? concat("warp ", first) : concat("warps ", first, "-", last));
      row(*warps[i], 20);
      i = next;
    }
  }

  void add_kind(What what, int height) {
    const Track* before = nullptr;
    for (const Track& track : cta_.tracks) {
      if (track.what != what) continue;
      const bool goes_on =
          before != nullptr && before->owner == track.owner && what != What::kPhase;
      if (!goes_on) text_at(4, y_ + height - 3, label_of(track), "font-size=\"9\"");
      row(track, height);
      before = &track;
    }
  }

  static std::string label_of(const Track& track) {
    if (track.what != What::kPhase || !track.name.starts_with("mbarrier")) return track.name;
    // "mbarrier 66560 (gemm.cu:131)": the file's name is too long here.
    const std::size_t line = track.name.rfind(':');
    return concat(
        "M", track.owner, "  ", track.name.substr(0, track.name.find(" (")),
        line == std::string::npos
            ? ""
            : concat(", line ", track.name.substr(line + 1, track.name.size() - line - 2)));
  }

  void add_axis() {
    double step = 1;
    while (step * scale_ < 60) step *= step * scale_ < 24 && step * 5 * scale_ < 90 ? 5 : 2;
    for (auto at = static_cast<Step>(std::ceil(static_cast<double>(options_.from) / step) * step);
         at <= to_; at += static_cast<Step>(step)) {
      const std::string x = pixels(x_of(at));
      body_ += concat("<line x1=\"", x, "\" y1=\"", kHead - 6, "\" x2=\"", x, "\" y2=\"", y_,
                      "\" stroke=\"#000\" stroke-opacity=\"0.12\"/>\n");
      if (x_of(at) + 24 < options_.width)
        text_at(x_of(at) + 2, kHead - 8, concat(at), "fill=\"#666\" font-size=\"9\"");
    }
    text_at(4, kHead - 8, "step (order, not time)", "fill=\"#666\" font-size=\"9\"");
  }

  void add_legend() {
    struct Entry {
      std::string_view colour;
      std::string_view text;
    };
    constexpr Entry kEntries[] = {{kWaiting, "waits"},
                                  {kBusy, "other wrapped instruction"},
                                  {kCopying, "starts a copy; copy under way"},
                                  {kMultiplying, "wgmma; group under way"},
                                  {kSignalling, "arrives at an mbarrier"},
                                  {kPhases[1], "phase of an mbarrier"}};
    double x = kLabels;
    for (const Entry& entry : kEntries) {
      body_ += concat("<rect x=\"", pixels(x), "\" y=\"", y_ + 14,
                      "\" width=\"10\" height=\"10\" fill=\"", entry.colour, "\"/>\n");
      text_at(x + 14, y_ + 23, entry.text);
      x += 30 + static_cast<double>(entry.text.size()) * kLetter;
    }
  }

  const Cta& cta_;
  const PictureOptions options_;
  Step to_ = 0;
  double scale_ = 1;
  int y_ = kHead;
  std::string body_;
};

}  // namespace

std::string to_svg(const Trace& trace, const Cta& cta, const PictureOptions& options) {
  return Picture(cta, options).draw(trace);
}

}  // namespace rungs::emulator::trace

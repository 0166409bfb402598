#include <rungs/bench/compare_rows.hpp>

#include <rungs/core/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <tuple>

namespace rungs::bench {
namespace {

constexpr double kLeastNoise = 0.05;

using Key = std::tuple<std::string, std::string, std::string, std::string>;

Key key_of(const ladder::Row& row) { return {row.stage, row.operation, row.rung, row.case_name}; }

bool is_time(const ladder::Row& row) {
  return row.metric == "time" || row.metric == "emulation_time";
}
bool is_spread(const ladder::Row& row) {
  return row.metric == "time_spread" || row.metric == "emulation_time_spread";
}

// A rung that fails its check has an "error" row and no time.
struct Entry {
  const ladder::Row* time = nullptr;
  const ladder::Row* error = nullptr;
  double spread = 0;
  [[nodiscard]] const ladder::Row& any() const { return time != nullptr ? *time : *error; }
  [[nodiscard]] bool checked() const { return time != nullptr && time->checked; }
};

struct Index {
  std::map<Key, Entry> entries;
  std::vector<Key> order;

  explicit Index(const std::vector<ladder::Row>& rows) {
    for (const ladder::Row& row : rows) {
      if (!is_time(row) && !is_spread(row) && row.metric != "error") continue;
      const auto [entry, is_new] = entries.try_emplace(key_of(row));
      if (is_new) order.push_back(entry->first);
      if (is_time(row)) entry->second.time = &row;
      if (is_spread(row) && std::isfinite(row.value)) entry->second.spread = row.value;
      if (row.metric == "error") entry->second.error = &row;
    }
    std::erase_if(order, [this](const Key& key) {
      const Entry& entry = entries.at(key);
      return entry.time == nullptr && entry.error == nullptr;
    });
  }
};

std::string number(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

void judge(Comparison& c, const Entry& old, const Entry& now) {
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  c.old_seconds = old.time != nullptr ? old.time->value : nothing;
  c.new_seconds = now.time != nullptr ? now.time->value : nothing;
  c.gain = nothing;
  if (old.checked() && !now.checked()) {
    c.change = Change::kBroken;
    c.verdict = "broken: its output is no longer verified";
    return;
  }
  if (!old.checked() || !now.checked()) {
    c.change = now.checked() ? Change::kAdded : Change::kSame;
    c.verdict = now.checked() ? "verified now, was not before" : "not verified, as before";
    return;
  }
  const ladder::Row& before = *old.time;
  const ladder::Row& after = *now.time;
  c.by_peer = before.ratio && after.ratio && before.peer == after.peer;
  if (before.metric != after.metric || (!c.by_peer && before.machine != after.machine)) {
    c.change = Change::kUnlike;
    c.verdict = concat("not comparable: timed on ", before.machine, " before");
    return;
  }
  c.gain = c.by_peer ? *after.ratio / *before.ratio : before.value / after.value;
  c.noise = std::max(kLeastNoise, old.spread + now.spread);
  if (!std::isfinite(c.gain) || c.gain <= 0) {
    c.change = Change::kUnlike;
    c.verdict = "not comparable: a time is missing or zero";
  } else if (c.gain > 1 + c.noise) {
    c.change = Change::kFaster;
    c.verdict = number("%.2fx faster", c.gain);
  } else if (c.gain < 1 / (1 + c.noise)) {
    c.change = Change::kSlower;
    c.verdict = number("%.2fx slower", 1 / c.gain);
  } else {
    c.change = Change::kSame;
    c.verdict = number("within noise (%.2fx", c.gain) + number(", noise %.0f %%)", 100 * c.noise);
  }
}

Comparison named(const Key& key) {
  Comparison c;
  c.operation = std::get<1>(key);
  c.rung = std::get<2>(key);
  c.case_name = std::get<3>(key);
  c.gain = std::numeric_limits<double>::quiet_NaN();
  return c;
}

}  // namespace

std::vector<Comparison> compare_rows(const std::vector<ladder::Row>& old,
                                     const std::vector<ladder::Row>& now) {
  const Index before(old);
  const Index after(now);
  std::vector<Comparison> result;
  for (const Key& key : after.order) {
    Comparison c = named(key);
    const auto found = before.entries.find(key);
    if (found == before.entries.end()) {
      c.old_seconds = std::numeric_limits<double>::quiet_NaN();
      c.new_seconds = after.entries.at(key).any().value;
      c.change = Change::kAdded;
      c.verdict = "new";
    } else {
      judge(c, found->second, after.entries.at(key));
    }
    result.push_back(std::move(c));
  }
  for (const Key& key : before.order) {
    if (after.entries.count(key) > 0) continue;
    Comparison c = named(key);
    c.old_seconds = before.entries.at(key).any().value;
    c.new_seconds = std::numeric_limits<double>::quiet_NaN();
    c.change = Change::kRemoved;
    c.verdict = "only in the old results";
    result.push_back(std::move(c));
  }
  return result;
}

bool any_worse(const std::vector<Comparison>& comparisons) {
  return std::any_of(comparisons.begin(), comparisons.end(), [](const Comparison& c) {
    return c.change == Change::kSlower || c.change == Change::kBroken;
  });
}

}  // namespace rungs::bench

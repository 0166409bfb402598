// Chrome's trace-event format: an array of small objects, of which Perfetto makes tracks.
//   M  name and order of a process (a block) and of a thread (a track)
//   X  a slice: start and duration      i  an instant
//   C  a counter's new value            s, f  begin and end of an arrow, bound to the slices there

#include <rungs/emulator/trace.hpp>

#include <rungs/core/error.hpp>

#include <cstdio>
#include <map>
#include <string>
#include <string_view>

namespace rungs::emulator::trace {
namespace {

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof(code), "\\u%04x", static_cast<unsigned>(c));
      result += code;
    } else {
      result += c;
    }
  }
  result += '"';
  return result;
}

std::string text_of(const Index3& index) { return concat(index.x, ",", index.y, ",", index.z); }

const char* category(What what) {
  constexpr const char* kNames[] = {"instruction",    "wait",  "copy",
                                    "multiplication", "group", "phase"};
  return kNames[static_cast<int>(what)];
}

class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  /// Begins an event of a track; the caller adds members and calls end().
  void begin(char type, std::size_t process, std::size_t thread) {
    out_ += first_ ? "\n{\"ph\":\"" : ",\n{\"ph\":\"";
    first_ = false;
    out_ += type;
    out_ += concat("\",\"pid\":", process, ",\"tid\":", thread);
  }
  void text(std::string_view name, std::string_view value) {
    out_ += concat(",", quoted(name), ":", quoted(value));
  }
  void number(std::string_view name, std::uint64_t value) {
    out_ += concat(",", quoted(name), ":", value);
  }
  void raw(std::string_view members) { out_ += members; }
  void end() { out_ += "}"; }

  void metadata(std::size_t process, std::size_t thread, std::string_view what,
                std::string_view name) {
    begin('M', process, thread);
    text("name", what);
    raw(concat(",\"args\":{\"name\":", quoted(name), "}"));
    end();
  }
  void order(std::size_t process, std::size_t thread, std::string_view what, std::size_t index) {
    begin('M', process, thread);
    text("name", what);
    raw(concat(",\"args\":{\"sort_index\":", index, "}"));
    end();
  }

 private:
  std::string& out_;
  bool first_ = true;
};

void write_track(Writer& writer, const Track& track, std::size_t process, std::size_t thread) {
  writer.metadata(process, thread, "thread_name", track.name);
  writer.order(process, thread, "thread_sort_index", thread);
  for (const Slice& slice : track.slices) {
    writer.begin('X', process, thread);
    writer.text("name", slice.name + (slice.unfinished ? " (never over)" : ""));
    writer.text("cat", category(slice.what));
    writer.number("ts", slice.begin);
    writer.number("dur", slice.end - slice.begin);
    std::string facts;
    for (const auto& [name, value] : slice.facts)
      facts += concat(facts.empty() ? "" : ",", quoted(name), ":", quoted(value));
    writer.raw(concat(",\"args\":{", facts, "}"));
    writer.end();
  }
  for (const Mark& mark : track.marks) {
    writer.begin('i', process, thread);
    writer.text("name", mark.name);
    writer.number("ts", mark.at);
    writer.text("s", "t");
    writer.end();
  }
}

/// How many copies, or multiplications, are under way: filling and draining at a glance.
void write_counter(Writer& writer, const Cta& cta, std::size_t process, What what,
                   std::string_view name) {
  std::map<Step, std::int64_t> changes;
  for (const Track& track : cta.tracks) {
    if (track.what != what) continue;
    for (const Slice& slice : track.slices) {
      changes[slice.begin]++;
      changes[slice.end]--;
    }
  }
  std::int64_t under_way = 0;
  for (const auto& [at, change] : changes) {
    if (change == 0) continue;
    under_way += change;
    writer.begin('C', process, 0);
    writer.text("name", name);
    writer.number("ts", at);
    writer.raw(concat(",\"args\":{\"under way\":", under_way, "}"));
    writer.end();
  }
}

void write_totals(std::string& out, const Totals& totals) {
  const auto number = [&](std::string_view name, std::uint64_t value, bool last = false) {
    out += concat(quoted(name), ":", value, last ? "" : ",");
  };
  out += "{";
  number("blocks", totals.blocks);
  number("threads", totals.threads);
  number("mma_flops", totals.mma_flops);
  number("barriers", totals.barriers);
  number("fiber_switches", totals.fiber_switches);
  out += "\"instructions\":[";
  for (std::size_t i = 0; i < totals.instructions.size(); i++) {
    const InstructionCount& count = totals.instructions[i];
    out += concat(i == 0 ? "" : ",", "{\"name\":", quoted(count.name), ",");
    number("warps", count.warps);
    number("threads", count.threads, true);
    out += "}";
  }
  out += "],\"asynchronous\":[";
  for (std::size_t i = 0; i < totals.asynchronous.size(); i++) {
    const AsyncCount& count = totals.asynchronous[i];
    out += concat(i == 0 ? "" : ",", "{\"name\":", quoted(count.name), ",");
    number("operations", count.operations);
    number("bytes", count.bytes, true);
    out += "}";
  }
  out += "],\"banks\":[";
  for (std::size_t i = 0; i < totals.banks.size(); i++) {
    const BankCount& count = totals.banks[i];
    out += concat(i == 0 ? "" : ",", "{\"name\":", quoted(count.name), ",");
    number("accesses", count.accesses);
    number("wavefronts", count.wavefronts);
    number("ideal", count.ideal, true);
    out += "}";
  }
  out += "]}";
}

}  // namespace

std::string to_json(const Trace& trace) {
  std::string out = "{\"displayTimeUnit\":\"ns\",\"otherData\":{";
  out += concat("\"kernel\":", quoted(trace.kernel), ",\"grid\":", quoted(text_of(trace.grid)),
                ",\"block\":", quoted(text_of(trace.block)),
                ",\"cluster\":", quoted(text_of(trace.cluster)),
                ",\"schedule\":", quoted(trace.schedule), ",\"report\":", quoted(trace.report),
                ",\"axis\":\"logical steps, 1 step = 1 us: order, not time\"},\n\"totals\":");
  write_totals(out, trace.totals);
  out += ",\n\"traceEvents\":[";
  Writer writer(out);
  std::size_t arrow = 0;
  for (std::size_t c = 0; c < trace.ctas.size(); c++) {
    const Cta& cta = trace.ctas[c];
    const std::size_t process = c + 1;
    writer.metadata(process, 0, "process_name", concat("block (", text_of(cta.index), ")"));
    writer.order(process, 0, "process_sort_index", c);
    write_counter(writer, cta, process, What::kCopy, "copies under way");
    write_counter(writer, cta, process, What::kMultiplication, "multiplications under way");
    for (std::size_t t = 0; t < cta.tracks.size(); t++)
      write_track(writer, cta.tracks[t], process, t + 1);
    for (const Arrow& one : cta.arrows) {
      arrow++;
      writer.begin('s', process, one.from_track + 1);
      writer.text("name", "issue to landing");
      writer.text("cat", "landing");
      writer.number("id", arrow);
      writer.number("ts", one.from);
      writer.end();
      writer.begin('f', process, one.to_track + 1);
      writer.text("name", "issue to landing");
      writer.text("cat", "landing");
      writer.number("id", arrow);
      writer.number("ts", one.to - 1);  // inside the slice that ends there
      writer.text("bp", "e");
      writer.end();
    }
  }
  out += "\n]}\n";
  return out;
}

}  // namespace rungs::emulator::trace

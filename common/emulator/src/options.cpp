#include <rungs/emulator/options.hpp>

#include <rungs/core/error.hpp>

#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>

namespace rungs::emulator {
namespace {

const char* variable(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

Options from_environment() {
  Options options;
  if (const char* text = variable("RUNGS_EMULATOR_ASYNC")) {
    const std::string_view word = text;
    if (word == "late") {
      options.async = Async::kLate;
    } else if (word == "early") {
      options.async = Async::kEarly;
    } else if (word == "random") {
      options.async = Async::kRandom;
    } else {
      RUNGS_THROW(kInvalidArgument, "RUNGS_EMULATOR_ASYNC must be late, early or random, got \"",
                  word, "\"");
    }
  }
  if (const char* text = variable("RUNGS_EMULATOR_SEED")) {
    char* end = nullptr;
    options.seed = std::strtoull(text, &end, 0);
    RUNGS_REQUIRE(*end == '\0' && *text != '-', "RUNGS_EMULATOR_SEED must be a number, got \"",
                  text, "\"");
  }
  if (const char* text = variable("RUNGS_EMULATOR_WATCHDOG_S")) {
    char* end = nullptr;
    options.watchdog_s = std::strtod(text, &end);
    RUNGS_REQUIRE(*end == '\0' && options.watchdog_s > 0,
                  "RUNGS_EMULATOR_WATCHDOG_S must be a number of seconds above 0, got \"", text,
                  "\"");
  }
  return options;
}

std::mutex mutex;

Options& stored() {
  static Options options = from_environment();
  return options;
}

}  // namespace

Options options() {
  const std::lock_guard lock(mutex);
  return stored();
}

void set_options(const Options& options) {
  const std::lock_guard lock(mutex);
  stored() = options;
}

}  // namespace rungs::emulator

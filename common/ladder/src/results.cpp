#include <rungs/core/env.hpp>
#include <rungs/core/file.hpp>
#include <rungs/ladder/results.hpp>

#include <rungs_commit.hpp>

#include <array>
#include <ctime>
#include <utility>

namespace rungs::ladder {

std::string commit_id() {
  const std::string built = RUNGS_BUILD_COMMIT;
  return env::string("RUNGS_COMMIT", built.empty() ? "unknown" : built);
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

Row make_row(std::string stage, std::string operation) {
  Row row;
  row.stage = std::move(stage);
  row.operation = std::move(operation);
  row.machine = machine_name();
  row.commit = commit_id();
  row.date = utc_now();
  return row;
}

void write_rows(const std::string& path, const std::vector<Row>& rows) {
  file::write_atomic(path, to_json(rows));
}

}  // namespace rungs::ladder

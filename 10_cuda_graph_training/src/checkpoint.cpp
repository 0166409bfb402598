#include "checkpoint.hpp"

#include <rungs/core/error.hpp>
#include <rungs/core/file.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <sstream>

#include "detail/fnv.hpp"
#include "rank_checkpoint.hpp"

namespace rungs::training {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's byte order");

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t fields_bytes;
  std::uint64_t step;
  std::uint64_t count;
  std::uint64_t checksum;
};
static_assert(sizeof(Header) == 40 && offsetof(Header, checksum) == 32);

using Magic = char[8];
constexpr Magic kWhole = {'R', 'U', 'N', 'G', 'S', 'C', 'K', 'P'};
constexpr Magic kManifest = {'R', 'U', 'N', 'G', 'S', 'M', 'A', 'N'};
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kArrays = 3;

std::string text_of(const Fields& fields) {
  std::string text;
  for (const auto& [name, value] : fields) {
    text.append(name).append("=").append(value).append("\n");
  }
  return text;
}

std::uint64_t checksum_of(Header header, const void* body, std::size_t body_bytes) {
  header.checksum = 0;
  return fnv1a64(body, body_bytes, fnv1a64(&header, sizeof(header)));
}

Fields fields_in(const std::string& text) {
  Fields fields;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = std::min(line.find('='), line.size());
    fields.emplace_back(line.substr(0, equals),
                        equals < line.size() ? line.substr(equals + 1) : std::string());
  }
  return fields;
}

// Hexadecimal floats compare exactly and say nothing to a reader.
std::string readable(const std::string& value) {
  if (value.find("0x") == std::string::npos) return value;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.9g", std::strtod(value.c_str(), nullptr));
  return text.data();
}

bool only_more_steps(const std::string& name, const std::string& theirs, const std::string& ours) {
  return name == "train.steps" && std::atoll(theirs.c_str()) <= std::atoll(ours.c_str());
}

bool begins_with(const Header& header, const Magic& magic) {
  return std::memcmp(header.magic, magic, sizeof(magic)) == 0;
}

// @throws Error kInvalidArgument unless the file is ours, whole and undamaged
Header verified_header(const std::string& path, const std::vector<std::uint8_t>& content) {
  Header header{};
  RUNGS_REQUIRE(content.size() >= sizeof(header), path, ": truncated: ", content.size(),
                " bytes, the header alone has ", sizeof(header));
  std::memcpy(&header, content.data(), sizeof(header));
  RUNGS_REQUIRE(begins_with(header, kWhole) || begins_with(header, kManifest), path,
                ": not a rungs checkpoint (it begins with neither RUNGSCKP nor RUNGSMAN)");
  RUNGS_REQUIRE(header.version == kVersion, path, ": has version ", header.version,
                ", this program reads version ", kVersion);
  // In steps that cannot overflow, whatever the header says.
  const std::uint64_t rest = content.size() - sizeof(header);
  const bool fits = header.fields_bytes <= rest && header.count <= rest / (kArrays * sizeof(float));
  const std::uint64_t promised = header.fields_bytes + header.count * kArrays * sizeof(float);
  RUNGS_REQUIRE(fits && promised == rest, path, ": truncated or damaged: ", rest,
                " bytes follow the header, which promises ",
                fits ? std::to_string(promised) : std::string("more"));
  const std::uint64_t checksum = checksum_of(header, content.data() + sizeof(header), rest);
  RUNGS_REQUIRE(checksum == header.checksum, path, ": damaged: the checksum is ", std::hex,
                checksum, ", the header says ", header.checksum);
  return header;
}

std::uint64_t write(const std::string& path, const Magic& magic, const Fields& fields,
                    const Checkpoint& checkpoint) {
  const std::string text = text_of(fields);
  Header header{};
  std::memcpy(header.magic, magic, sizeof(magic));
  header.version = kVersion;
  header.fields_bytes = static_cast<std::uint32_t>(text.size());
  header.step = checkpoint.step;
  header.count = checkpoint.weights.size();

  std::vector<std::byte> content(sizeof(header));
  const auto append = [&content](const void* data, std::size_t size_bytes) {
    const auto* bytes = static_cast<const std::byte*>(data);
    content.insert(content.end(), bytes, bytes + size_bytes);
  };
  append(text.data(), text.size());
  for (const std::vector<float>* array :
       {&checkpoint.weights, &checkpoint.moment1, &checkpoint.moment2}) {
    RUNGS_ASSERT(array->size() == header.count, "checkpoint arrays of different sizes");
    append(array->data(), array->size() * sizeof(float));
  }
  header.checksum =
      checksum_of(header, content.data() + sizeof(header), content.size() - sizeof(header));
  std::memcpy(content.data(), &header, sizeof(header));
  file::write_atomic(path, std::span<const std::byte>(content));
  return header.checksum;
}

}  // namespace

std::string checkpoint_path(const std::string& directory) { return directory + "/checkpoint.bin"; }

CheckpointInfo inspect_checkpoint(const std::string& directory) {
  const std::string path = checkpoint_path(directory);
  const CheckpointFile file = read_file(path);
  CheckpointInfo info;
  read_fields(file.fields, path, info.model, info.train);
  info.steps_done = static_cast<int>(file.step);
  if (file.manifest) {
    info.nodes = ranks_of(path, file).nodes;
    verify_rank_files(directory, file);
  }
  return info;
}

CheckpointFile read_file(const std::string& path) {
  const std::vector<std::uint8_t> content = file::read_bytes(path);
  const Header header = verified_header(path, content);
  CheckpointFile result;
  result.manifest = begins_with(header, kManifest);
  result.step = header.step;
  result.checksum = header.checksum;
  const std::uint8_t* at = content.data() + sizeof(header);
  result.fields = fields_in(std::string(reinterpret_cast<const char*>(at), header.fields_bytes));
  at += header.fields_bytes;
  result.arrays.step = header.step;
  for (std::vector<float>* array :
       {&result.arrays.weights, &result.arrays.moment1, &result.arrays.moment2}) {
    array->resize(header.count);
    if (header.count > 0) std::memcpy(array->data(), at, header.count * sizeof(float));
    at += header.count * sizeof(float);
  }
  return result;
}

std::uint64_t write_file(const std::string& path, const Fields& fields,
                         const Checkpoint& checkpoint) {
  return write(path, kWhole, fields, checkpoint);
}

std::uint64_t write_manifest(const std::string& path, const Fields& fields, std::uint64_t step) {
  Checkpoint nothing;
  nothing.step = step;
  return write(path, kManifest, fields, nothing);
}

void compare_fields(const std::string& path, const Fields& saved, const Fields& fields,
                    Resume rule) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto& [name, ours] = fields[i];
    RUNGS_REQUIRE(i < saved.size() && saved[i].first == name, path, ": no field ", name,
                  " where one is expected");
    const std::string& theirs = saved[i].second;
    if (theirs == ours || (rule == Resume::kMoreSteps && only_more_steps(name, theirs, ours)))
      continue;
    RUNGS_REQUIRE(name.rfind("text.", 0) != 0, path,
                  ": was saved while training on another text; it continues only on that one");
    RUNGS_THROW(kInvalidArgument, path, ": was saved with ", name, " = ", readable(theirs),
                ", this trainer has ", readable(ours),
                "; make the trainer with the saved configuration to resume");
  }
  RUNGS_REQUIRE(saved.size() == fields.size(), path, ": unexpected field ",
                saved[fields.size()].first);
}

void require_count(const std::string& path, const CheckpointFile& file, std::size_t count) {
  RUNGS_REQUIRE(file.arrays.weights.size() == count, path, ": holds ", file.arrays.weights.size(),
                " parameters, this model has ", count);
}

void write_checkpoint(const std::string& directory, const Fields& fields,
                      const Checkpoint& checkpoint) {
  file::make_directories(directory);
  write_file(checkpoint_path(directory), fields, checkpoint);
  remove_rank_files(directory, 0);
}

Checkpoint read_checkpoint(const std::string& directory, const Fields& fields, Resume rule,
                           std::size_t count) {
  const std::string path = checkpoint_path(directory);
  CheckpointFile file = read_file(path);
  if (file.manifest) require_ranks(path, ranks_of(path, file), {});
  compare_fields(path, file.fields, fields, rule);
  require_count(path, file, count);
  return std::move(file.arrays);
}

}  // namespace rungs::training

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

constexpr char kMagic[] = {'R', 'U', 'N', 'G', 'S', 'C', 'K', 'P'};
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

// @throws Error kInvalidArgument naming the first difference between the file's configuration and
// ours.
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

// The file's bytes and the parts of them, once it has been found to be ours, whole and undamaged.
struct Verified {
  std::vector<std::uint8_t> content;
  Header header{};
  Fields fields;
};

Verified read_verified(const std::string& path) {
  Verified result;
  result.content = file::read_bytes(path);
  const std::vector<std::uint8_t>& content = result.content;
  Header& header = result.header;
  RUNGS_REQUIRE(content.size() >= sizeof(header), path, ": truncated: ", content.size(),
                " bytes, the header alone has ", sizeof(header));
  std::memcpy(&header, content.data(), sizeof(header));
  RUNGS_REQUIRE(std::memcmp(header.magic, kMagic, sizeof(kMagic)) == 0, path,
                ": not a rungs checkpoint (it does not begin with RUNGSCKP)");
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
  const auto* text = reinterpret_cast<const char*>(content.data() + sizeof(header));
  result.fields = fields_in(std::string(text, header.fields_bytes));
  return result;
}

}  // namespace

std::string checkpoint_path(const std::string& directory) { return directory + "/checkpoint.bin"; }

CheckpointInfo inspect_checkpoint(const std::string& directory) {
  const std::string path = checkpoint_path(directory);
  const Verified file = read_verified(path);
  CheckpointInfo info;
  read_fields(file.fields, path, info.model, info.train);
  info.steps_done = static_cast<int>(file.header.step);
  return info;
}

void write_checkpoint(const std::string& directory, const Fields& fields,
                      const Checkpoint& checkpoint) {
  const std::string text = text_of(fields);
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
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

  file::make_directories(directory);
  file::write_atomic(checkpoint_path(directory), std::span<const std::byte>(content));
}

Checkpoint read_checkpoint(const std::string& directory, const Fields& fields, Resume rule,
                           std::size_t count) {
  const std::string path = checkpoint_path(directory);
  // 1. Is it one of ours, whole and undamaged?
  const Verified file = read_verified(path);
  const Header& header = file.header;
  // 2. Is it of this model, these settings and this text?
  compare_fields(path, file.fields, fields, rule);
  RUNGS_REQUIRE(header.count == count, path, ": holds ", header.count,
                " parameters, this model has ", count);

  Checkpoint checkpoint;
  checkpoint.step = header.step;
  const std::uint8_t* at = file.content.data() + sizeof(header) + header.fields_bytes;
  for (std::vector<float>* array :
       {&checkpoint.weights, &checkpoint.moment1, &checkpoint.moment2}) {
    array->resize(count);
    std::memcpy(array->data(), at, count * sizeof(float));
    at += count * sizeof(float);
  }
  return checkpoint;
}

}  // namespace rungs::training

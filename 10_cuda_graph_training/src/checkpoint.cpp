#include "checkpoint.hpp"

#include <rungs/core/error.hpp>
#include <rungs/core/file.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
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

std::string path_in(const std::string& directory) { return directory + "/checkpoint.bin"; }

std::string text_of(const Fields& fields) {
  std::string text;
  for (const auto& [name, value] : fields) text += name + "=" + value + "\n";
  return text;
}

std::uint64_t checksum_of(Header header, const void* body, std::size_t body_bytes) {
  header.checksum = 0;
  return fnv1a64(body, body_bytes, fnv1a64(&header, sizeof(header)));
}

// @throws Error kInvalidArgument naming the first difference between the file's configuration and
// ours.
void compare_fields(const std::string& path, const std::string& text, const Fields& fields) {
  std::istringstream lines(text);
  std::string line;
  for (const auto& [name, value] : fields) {
    const bool present = static_cast<bool>(std::getline(lines, line));
    const std::size_t equals = line.find('=');
    RUNGS_REQUIRE(present && line.substr(0, equals) == name, path, ": no field ", name,
                  " where one is expected");
    const std::string theirs = line.substr(equals + 1);
    RUNGS_REQUIRE(theirs == value, path, ": was saved with ", name, " = ", theirs,
                  ", this trainer has ", value,
                  "; make the trainer with the saved configuration to resume");
  }
  RUNGS_REQUIRE(!std::getline(lines, line), path, ": unexpected field ", line);
}

}  // namespace

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
  file::write_atomic(path_in(directory), std::span<const std::byte>(content));
}

Checkpoint read_checkpoint(const std::string& directory, const Fields& fields, std::size_t count) {
  const std::string path = path_in(directory);
  const std::vector<std::uint8_t> content = file::read_bytes(path);
  // 1. Is it one of ours, whole and undamaged?
  Header header{};
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
  // 2. Is it of this model, these settings and this text?
  const auto* text = reinterpret_cast<const char*>(content.data() + sizeof(header));
  compare_fields(path, std::string(text, header.fields_bytes), fields);
  RUNGS_REQUIRE(header.count == count, path, ": holds ", header.count,
                " parameters, this model has ", count);

  Checkpoint checkpoint;
  checkpoint.step = header.step;
  const std::uint8_t* at = content.data() + sizeof(header) + header.fields_bytes;
  for (std::vector<float>* array :
       {&checkpoint.weights, &checkpoint.moment1, &checkpoint.moment2}) {
    array->resize(count);
    std::memcpy(array->data(), at, count * sizeof(float));
    at += count * sizeof(float);
  }
  return checkpoint;
}

}  // namespace rungs::training

#include "traces/model_files/safetensors.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>

#include "core/base/suggest.hpp"
#include "traces/files/read_file.hpp"

namespace foreshard::traces {
namespace {

namespace dom = simdjson::dom;

constexpr std::size_t kDepth = 16;  // a header nests 3 deep
constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 48;
constexpr std::size_t kMaxDimensions = 16;  // torch allows 64, models use up to 5

struct StoredType {
  std::string_view word;
  std::uint64_t bits;
};
// safetensors 0.6: tensor.rs, Dtype and its bitsize().
constexpr std::array kStoredTypes{
    StoredType{"BOOL", 8},    StoredType{"F4", 4},   StoredType{"F6_E2M3", 6}, StoredType{"F6_E3M2", 6},
    StoredType{"U8", 8},      StoredType{"I8", 8},   StoredType{"F8_E5M2", 8}, StoredType{"F8_E4M3", 8},
    StoredType{"F8_E8M0", 8}, StoredType{"I16", 16}, StoredType{"U16", 16},    StoredType{"F16", 16},
    StoredType{"BF16", 16},   StoredType{"I32", 32}, StoredType{"U32", 32},    StoredType{"F32", 32},
    StoredType{"C64", 64},    StoredType{"F64", 64}, StoredType{"I64", 64},    StoredType{"U64", 64}};

constexpr auto kTypeNames = [] {
  std::array<std::string_view, kStoredTypes.size()> words;
  std::transform(kStoredTypes.begin(), kStoredTypes.end(), words.begin(),
                 [](const StoredType& type) { return type.word; });
  return words;
}();

struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class HeaderReader {
 public:
  HeaderReader(std::uint64_t data_bytes, const std::string& name) : data_bytes_(data_bytes), name_(name) {}

  Result<std::vector<StoredTensor>> read(dom::object header) {
    std::set<std::string_view> names;
    for (const dom::key_value_pair field : header) {
      if (!names.insert(field.key).second) return refuse(field.key, "is there twice");
      if (field.key == "__metadata__") {
        FORESHARD_TRY(check_metadata(field.value));
        continue;
      }
      FORESHARD_TRY(add(field.key, field.value));
    }
    return in_data_order();
  }

 private:
  tl::unexpected<Error> refuse(std::string_view tensor, std::string what, std::string hint = {}) const {
    return fail(ErrorKind::input, std::move(what), fmt::format("{}, tensor '{}'", name_, shown(tensor)),
                std::move(hint));
  }

  /// The format allows text to text only.
  Result<void> check_metadata(dom::element value) const {
    dom::object fields;
    if (value.get(fields) != simdjson::SUCCESS)
      return fail(ErrorKind::input, "an object is needed", name_ + ", __metadata__");
    for (const dom::key_value_pair field : fields)
      if (!field.value.is_string())
        return fail(ErrorKind::input, fmt::format("the value of '{}' is no text", shown(field.key)),
                    name_ + ", __metadata__");
    return {};
  }

  Result<void> add(std::string_view name, dom::element value) {
    dom::object entry;
    if (value.get(entry) != simdjson::SUCCESS) return refuse(name, "an object is needed");
    for (const dom::key_value_pair field : entry)
      if (field.key != "dtype" && field.key != "shape" && field.key != "data_offsets")
        return refuse(name, fmt::format("unknown key '{}'", shown(field.key)), "known: dtype, shape, data_offsets");
    StoredTensor tensor;
    tensor.name = std::string(name);
    std::string_view dtype;
    if (entry["dtype"].get(dtype) != simdjson::SUCCESS) return refuse(name, "'dtype' is missing or no text");
    const auto type =
        std::find_if(kStoredTypes.begin(), kStoredTypes.end(), [&](const StoredType& t) { return t.word == dtype; });
    if (type == kStoredTypes.end())
      return refuse(name, fmt::format("unknown dtype '{}'", shown(dtype)), suggestion(shown(dtype), kTypeNames));
    tensor.dtype = std::string(dtype);
    const auto elements = read_shape(entry, tensor);
    FORESHARD_TRY(elements);
    const auto extent = read_offsets(entry, name);
    FORESHARD_TRY(extent);
    tensor.bytes = extent->end - extent->begin;
    if (*elements * type->bits % 8 != 0 || *elements * type->bits / 8 != tensor.bytes)
      return refuse(name, fmt::format("{} elements of {} do not take the {} bytes of data_offsets", *elements, dtype,
                                      tensor.bytes));
    tensors_.push_back(std::move(tensor));
    extents_.push_back(*extent);
    return {};
  }

  Result<std::uint64_t> read_shape(dom::object entry, StoredTensor& tensor) const {
    dom::array shape;
    if (entry["shape"].get(shape) != simdjson::SUCCESS) return refuse(tensor.name, "'shape' is missing or no array");
    std::uint64_t elements = 1;
    for (const dom::element item : shape) {
      std::uint64_t size = 0;
      if (item.get(size) != simdjson::SUCCESS)
        return refuse(tensor.name, "'shape' holds something else than whole numbers of at least 0");
      if (size > kMaxElements || (size > 0 && elements > kMaxElements / size) || tensor.shape.size() == kMaxDimensions)
        return refuse(tensor.name, "'shape' is out of range: more than 2^48 elements or 16 dimensions");
      elements *= size;
      tensor.shape.push_back(static_cast<std::int64_t>(size));
    }
    return elements;
  }

  Result<Extent> read_offsets(dom::object entry, std::string_view name) const {
    dom::array pair;
    std::vector<std::uint64_t> ends;
    if (entry["data_offsets"].get(pair) != simdjson::SUCCESS)
      return refuse(name, "'data_offsets' is missing or no array");
    for (const dom::element item : pair) {
      std::uint64_t value = 0;
      if (ends.size() == 2 || item.get(value) != simdjson::SUCCESS)
        return refuse(name, "'data_offsets' must be two whole numbers of at least 0");
      ends.push_back(value);
    }
    if (ends.size() != 2 || ends[0] > ends[1]) return refuse(name, "'data_offsets' must be [begin, end]");
    if (ends[1] > data_bytes_)
      return refuse(name, fmt::format("its data ends at byte {}, the file's data at {}", ends[1], data_bytes_),
                    "the file is cut short, or not downloaded whole");
    return Extent{ends[0], ends[1]};
  }

  Result<std::vector<StoredTensor>> in_data_order() {
    std::vector<std::size_t> order(tensors_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::tie(extents_[a].begin, extents_[a].end, a) < std::tie(extents_[b].begin, extents_[b].end, b);
    });
    std::vector<StoredTensor> sorted;
    std::uint64_t at = 0;
    for (const std::size_t i : order) {
      if (extents_[i].begin != at)
        return refuse(tensors_[i].name, fmt::format("its data begins at byte {} where the data before it ends at {}",
                                                    extents_[i].begin, at));
      at = extents_[i].end;
      sorted.push_back(std::move(tensors_[i]));
    }
    if (at != data_bytes_)
      return fail(ErrorKind::input, fmt::format("the tensors end at byte {} of {} bytes of data", at, data_bytes_),
                  name_);
    return sorted;
  }

  std::uint64_t data_bytes_;
  const std::string& name_;
  std::vector<StoredTensor> tensors_;
  std::vector<Extent> extents_;  // by index into tensors_
};

}  // namespace

std::string shown(std::string_view name) {
  return std::string(name.substr(0, 120));
}

Result<std::vector<StoredTensor>> parse_safetensors_header(const std::string& json, std::uint64_t data_bytes,
                                                           const std::string& name) {
  dom::parser parser;
  dom::object header;
  if (const auto error = parser.allocate(std::max<std::size_t>(json.size(), 64), kDepth); error != simdjson::SUCCESS)
    return fail(ErrorKind::input, fmt::format("cannot read the header: {}", simdjson::error_message(error)), name);
  dom::element root;
  if (const auto error = parser.parse(json).get(root); error != simdjson::SUCCESS)
    return fail(ErrorKind::input, fmt::format("the header is not JSON: {}", simdjson::error_message(error)), name);
  if (root.get(header) != simdjson::SUCCESS) return fail(ErrorKind::input, "the header is no JSON object", name);
  return HeaderReader(data_bytes, name).read(header);
}

Result<std::vector<StoredTensor>> read_safetensors_header(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  ReadFile file(path, FileKind::regular);
  if (!file) return fail(ErrorKind::input, file.why_not(), path);
  if (error) return fail(ErrorKind::input, "cannot be opened", path);
  std::array<char, 8> head{};
  if (file.read(head) != head.size())
    return fail(ErrorKind::input, "is too short for a safetensors file", path, "it begins with 8 bytes of length");
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(head[i]);
  if (length > kLargestSafetensorsHeader)
    return fail(ErrorKind::input, fmt::format("the header's length is {} bytes, more than the format's 100 MB", length),
                path, "is it a safetensors file?");
  if (length > size - 8)
    return fail(ErrorKind::input, fmt::format("the header of {} bytes is cut short at {}", length, size - 8), path);
  std::string json(length, '\0');
  if (file.read(json) != length) return fail(ErrorKind::input, "cannot be read to the end of its header", path);
  return parse_safetensors_header(json, size - 8 - length, path);
}

}  // namespace foreshard::traces

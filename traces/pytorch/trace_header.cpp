#include "traces/pytorch/trace_header.hpp"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/json_io.hpp"

namespace foreshard::traces {

namespace {

using HeaderJson = nlohmann::json;

template <class Number>
std::optional<Number> number(const HeaderJson& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number_integer()) return std::nullopt;
  if (it->is_number_unsigned() &&
      it->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<Number>::max()))
    return std::nullopt;
  if (!it->is_number_unsigned()) return std::nullopt;  // none of the numbers read here is negative
  return it->get<Number>();
}

std::string text(const HeaderJson& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

void read_devices(TraceHeader& header, const HeaderJson& list) {
  if (!list.is_array()) return;
  for (const HeaderJson& row : list) {
    if (!row.is_object()) continue;
    header.devices.push_back({number<std::uint32_t>(row, "id").value_or(0), text(row, "name"),
                              number<Bytes>(row, "totalGlobalMem").value_or(0),
                              number<std::uint32_t>(row, "numSms").value_or(0)});
  }
}

/// JSON nested deeper than this is none of Kineto's; nlohmann's parser copes, its destructor need not be tried.
bool is_shallow(std::string_view text) {
  constexpr int kMaxNesting = 64;
  int depth = 0;
  for (const char c : text) {
    depth += c == '[' || c == '{' ? 1 : 0;
    if (depth > kMaxNesting) return false;
    depth -= c == ']' || c == '}' ? 1 : 0;
  }
  return true;
}

}  // namespace

Result<void> read_member(TraceHeader& header, const JsonPiece& piece, const std::string& file) {
  if (piece.key == "segments") header.is_snapshot = true;
  if (piece.key != "deviceProperties" && piece.key != "distributedInfo" && piece.key != "baseTimeNanoseconds")
    return {};
  const HeaderJson value =
      is_shallow(piece.text) ? parse_json_text(piece.text) : HeaderJson(HeaderJson::value_t::discarded);
  if (value.is_discarded())
    return fail(ErrorKind::input, fmt::format("the value of '{}' is not valid JSON", piece.key),
                fmt::format("{}, byte {}", file, piece.offset), "the file is damaged; record or copy it again");
  if (piece.key == "deviceProperties") {
    read_devices(header, value);
  } else if (piece.key == "distributedInfo") {
    if (!value.is_object()) return {};
    if (value.contains("rank") && value["rank"].is_number_integer() && !value["rank"].is_number_unsigned())
      return fail(ErrorKind::input, fmt::format("the rank is {}, and ranks count from 0", value["rank"].dump()),
                  file + ", distributedInfo.rank");
    header.rank = number<std::uint32_t>(value, "rank");
    header.world_size = number<std::uint32_t>(value, "world_size");
    header.nccl = text(value, "nccl_version");
  } else if (value.is_number_unsigned() &&
             value.get<std::uint64_t>() < static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max() / 2)) {
    header.base_ns = value.get<std::int64_t>();
  }
  return {};
}

}  // namespace foreshard::traces

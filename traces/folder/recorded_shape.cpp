#include "traces/folder/recorded_shape.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/strict_json.hpp"
#include "traces/files/text_file.hpp"

namespace foreshard::traces {
namespace {

using Json = nlohmann::json;

/// The member, or null.
Json member(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : Json();
}

Json list_in(const Json& object, const char* key) {
  Json list = member(object, key);
  return list.is_array() ? list : Json::array();
}

std::vector<std::uint32_t> sizes_of(const Json& tensor) {
  std::vector<std::uint32_t> out;
  for (const Json& size : list_in(tensor, "shape"))
    out.push_back(size.is_number_unsigned() && size <= UINT32_MAX ? size.get<std::uint32_t>() : 0);
  return out;
}

/// Token ids are whole numbers in two dimensions.
bool is_tokens(const Json& tensor) {
  const Json dtype = member(tensor, "dtype");
  const std::string name = dtype.is_string() ? dtype.get<std::string>() : std::string();
  return (name.starts_with("int") || name.starts_with("uint")) && sizes_of(tensor).size() == 2;
}

StepShape shape_of(const Json& forward) {
  const Json tensors = list_in(forward, "tensors");
  const Json* tokens = nullptr;
  for (const Json& tensor : tensors)
    if (is_tokens(tensor) && (tokens == nullptr || member(tensor, "name") == "input_ids")) tokens = &tensor;
  if (tokens != nullptr) return {sizes_of(*tokens)[0], sizes_of(*tokens)[1]};
  for (const Json& tensor : tensors)
    if (const auto sizes = sizes_of(tensor); !sizes.empty()) return {sizes[0], sizes.size() > 2 ? sizes[1] : 1};
  return {};
}

}  // namespace

Result<std::optional<StepShape>> parse_recorded_shape(std::string_view text, std::string_view name) {
  const auto json = parse_strict_json(text, name);
  FORESHARD_TRY(json);
  std::optional<StepShape> out;
  for (const Json& step : list_in(member(*json, "recorded"), "inputs"))
    for (const Json& forward : step.is_array() ? step : Json::array()) {
      if (member(forward, "backward") == false) continue;  // an evaluation
      const StepShape shape = shape_of(forward);
      if (!shape.known() || (out && *out != shape)) return std::optional<StepShape>();
      out = shape;
    }
  return out;
}

Result<std::optional<StepShape>> recorded_shape(const std::string& recorded) {
  const std::filesystem::path path = std::filesystem::path(recorded).parent_path() / "rank.json";
  std::error_code missing;
  if (recorded.empty() || !std::filesystem::is_regular_file(path, missing)) return std::optional<StepShape>();
  const auto text = read_text(path.string());
  FORESHARD_TRY(text);
  return parse_recorded_shape(*text, path.string());
}

}  // namespace foreshard::traces

#include "traces/folder/recorder_problems.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/strict_json.hpp"
#include "traces/files/text_file.hpp"

namespace foreshard::traces {

Result<std::vector<std::string>> parse_recorder_problems(std::string_view text, std::string_view name) {
  const auto json = parse_strict_json(text, name);
  FORESHARD_TRY(json);
  std::vector<std::string> out;
  const auto problems = json->is_object() ? json->find("problems") : json->end();
  if (problems == json->end() || !problems->is_array()) return out;
  for (const auto& problem : *problems)
    if (problem.is_string()) out.push_back(problem.get<std::string>());
  return out;
}

Result<std::vector<std::string>> recorder_problems(const std::string& recorded) {
  const std::filesystem::path path = std::filesystem::path(recorded).parent_path() / "rank.json";
  std::error_code missing;
  if (recorded.empty() || !std::filesystem::is_regular_file(path, missing)) return std::vector<std::string>{};
  const auto text = read_text(path.string());
  FORESHARD_TRY(text);
  return parse_recorder_problems(*text, path.string());
}

}  // namespace foreshard::traces

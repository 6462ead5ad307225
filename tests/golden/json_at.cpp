// json_at PATH...: prints what lies at these paths of the JSON on standard input, one value a line, for golden cases.
// A path is written as jq's: .settings.gpus, .points[0].step_ms; .points[].state is that of every point.

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

namespace {

using nlohmann::ordered_json;

/// Prints what lies at `path` of `at`, which itself lies at `from` of the whole.
void print(const ordered_json& at, const std::string& from, const std::string& path) {
  if (path.empty()) {
    std::cout << from << ' ' << at.dump() << '\n';
    return;
  }
  const std::size_t end = path[0] == '[' ? path.find(']') + 1 : std::min(path.find_first_of(".[", 1), path.size());
  const std::string word = path.substr(0, end), rest = path.substr(end);
  if (word == "[]") {
    for (std::size_t i = 0; i < at.size(); ++i) print(at[i], from + '[' + std::to_string(i) + ']', rest);
  } else if (word[0] == '[') {
    print(at.at(std::stoul(word.substr(1))), from + word, rest);
  } else {
    print(at.at(word.substr(1)), from + word, rest);
  }
}

}  // namespace

int main(int count, char** words) {
  std::string path;
  try {
    const ordered_json whole = ordered_json::parse(std::cin);
    for (int i = 1; i < count; ++i) print(whole, "", path = words[i]);
  } catch (const std::exception& error) {
    std::cerr << "json_at " << path << ": " << error.what() << '\n';
    return 1;
  }
  return 0;
}

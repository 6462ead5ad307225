#include "core/straggler/hang_waits.hpp"

#include <nlohmann/json.hpp>

#include "core/base/json_io.hpp"

namespace foreshard {

std::map<std::uint32_t, std::uint32_t> hang_waits(const Run& run) {
  std::map<std::uint32_t, std::uint32_t> out;
  const auto answer = run.results.find("hang");
  if (run.info.kind != RunKind::planned || answer == run.results.end()) return out;
  const nlohmann::json hang = parse_json_text(answer->second);
  if (!hang.is_object()) return out;
  try {
    for (const nlohmann::json& group : hang.at("ranks")) {
      const nlohmann::json& waits = group.at("waits");
      if (waits.empty()) continue;
      const auto whom = waits.front().at("absent").front().get<std::uint32_t>();
      for (const nlohmann::json& rank : group.at("ranks")) out[rank.get<std::uint32_t>()] = whom;
    }
  } catch (const nlohmann::json::exception&) {  // not as foreshard writes it
    return {};
  }
  return out;
}

}  // namespace foreshard

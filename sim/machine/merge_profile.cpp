#include "sim/machine/merge_profile.hpp"

#include <nlohmann/json.hpp>
#include <vector>

namespace foreshard::sim {
namespace {

using Json = nlohmann::json;

Json table_key(const Json& table) {
  if (!table.is_object()) return {};
  const Json ranks = table.value("ranks", Json());
  return {table.value("kind", Json()),
          table.value("transport", Json()),
          ranks,
          table.value("ranks_per_node", ranks),
          table.value("upcasts", Json(false)),
          table.value("dtype", Json("bfloat16"))};
}

/// Only the base's tables are replaced, each once: two equal ones in the changes stay two, and are refused later.
void lay_tables(Json& base, const Json& changes) {
  std::vector<bool> replaced(base.size(), false);
  for (const Json& table : changes) {
    const Json key = table_key(table);
    std::size_t at = 0;
    while (at < replaced.size() && (replaced[at] || key.is_null() || table_key(base[at]) != key)) ++at;
    if (at < replaced.size()) {
      base[at] = table;
      replaced[at] = true;
    } else {
      base.push_back(table);
    }
  }
}

}  // namespace

void lay_over(Json& base, const Json& changes) {
  for (const auto& [key, value] : changes.items()) {
    const auto it = base.find(key);
    if (value.is_null()) {
      if (it != base.end()) base.erase(it);
    } else if (key == "collectives" && it != base.end() && it->is_array() && value.is_array()) {
      lay_tables(*it, value);
    } else if (it != base.end() && it->is_object() && value.is_object() && !it->contains("source")) {
      lay_over(*it, value);
    } else {
      base[key] = value;
    }
  }
}

}  // namespace foreshard::sim

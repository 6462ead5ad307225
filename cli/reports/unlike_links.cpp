#include "cli/reports/unlike_links.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/reports/beside_report.hpp"
#include "cli/reports/flapping_report.hpp"
#include "core/base/json_io.hpp"
#include "sim/network/background_load.hpp"

namespace foreshard::cli {
namespace {

Json stored_json(const Run& run, const char* key) {
  const auto kept = run.results.find(key);
  return kept == run.results.end() ? Json(nullptr) : parse_ordered_json_text(kept->second);
}

/// A number of a store's JSON; `otherwise` where it is none, or below `least`.
double number(const Json& json, const char* key, double least, double otherwise) {
  if (!json.is_object() || !json.contains(key) || !json[key].is_number()) return otherwise;
  const double value = json[key].get<double>();
  return value >= least ? value : otherwise;
}

/// A place of a store's JSON; one that no job has where it is none.
std::uint32_t place(const Json& json, const char* key) {
  const double value = number(json, key, 0, UINT32_MAX);
  return value < UINT32_MAX ? static_cast<std::uint32_t>(value) : UINT32_MAX;
}

}  // namespace

void add_unlike_links(const sim::Prediction& p, Json& json) {
  json["slow_adapters"] = Json::array();
  for (const sim::SlowAdapter& slow : p.slow_adapters)
    json["slow_adapters"].push_back({{"node", slow.node}, {"adapter", slow.adapter}, {"slowdown", slow.slowdown}});
  json["slow_links"] = Json::array();
  for (const sim::SlowLink& slow : p.slow_links)
    json["slow_links"].push_back({{"rank", slow.rank}, {"slowdown", slow.slowdown}});
  json["background_load"] = nullptr;
  if (p.background.any())
    json["background_load"] = {
        {"adapters", p.background.adapters}, {"uplinks", p.background.uplinks}, {"words", sim::words(p.background)}};
}

void put_unlike_links(const Run& run, sim::MachineProfile& machine) {
  for (const Json& slow : stored_json(run, "slow_adapters"))
    machine.network.slow_adapters.push_back(
        {place(slow, "node"), place(slow, "adapter"), number(slow, "slowdown", 1, 1)});
  for (const Json& slow : stored_json(run, "slow_links"))
    machine.links.slow_links.push_back({place(slow, "rank"), number(slow, "slowdown", 1, 1)});
  const Json load = stored_json(run, "background_load");
  sim::BackgroundLoad background{number(load, "adapters", 0, 0), number(load, "uplinks", 0, 0)};
  for (const sim::SlowAdapter& slow : machine.network.slow_adapters)
    if (background.adapters * slow.slowdown >= 1) background.adapters = 0;
  if (background.adapters < 1 && background.uplinks < 1) machine.network.background = background;
}

std::vector<std::string> unlike_links_notes(const Run& run, const sim::MachineProfile& machine) {
  std::vector<std::string> out;
  if (machine.network.background.any())
    out.push_back(fmt::format("what a link carries is what is left of it: {}", words(machine.network.background)));
  if (const Json flapping = stored_flapping(run); flapping.is_object()) {
    const Json link = flapping.value("link", Json("a link"));
    out.push_back(
        fmt::format("the run is of the job while nothing flaps: what links carry in an outage of {} is not shown",
                    link.is_string() ? link.get<std::string>() : "a link"));
  }
  if (stored_beside(run).is_object()) out.emplace_back("what the other job (--beside) puts on the fabric is not shown");
  return out;
}

}  // namespace foreshard::cli

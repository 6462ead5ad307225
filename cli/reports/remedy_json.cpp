#include "cli/reports/remedy_json.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "cli/reports/json_values.hpp"
#include "core/base/units.hpp"
#include "core/explain/explanation.hpp"

namespace foreshard::cli {

Json step_ms(bool has_time, double ms) {
  return has_time ? Json(ms) : Json(nullptr);
}

Json tried_json(const sim::LargestFit& found) {
  constexpr std::array<std::string_view, 4> kWords{"does not fit", "may not fit", "fits with retries", "fits"};
  Json list = Json::array();
  for (const sim::SizeProbe& probe : found.tried)
    list.push_back(
        {{"value", probe.value},
         {"fits", probe.refusal.empty() ? Json(kWords[static_cast<std::size_t>(probe.fits)]) : Json(nullptr)},
         {"refusal", text_or_null(probe.refusal)},
         {"peak_reserved_bytes", probe.reserved > 0 ? Json(probe.reserved) : Json(nullptr)}});
  return list;
}

std::string remedy_marks(const sim::Remedy& remedy) {
  std::string text = remedy.may_run_out_of_memory ? "may not fit" : "";
  if (remedy.retries_each_step) text += text.empty() ? "only with retries" : ", only with retries";
  if (!remedy.valid) text += text.empty() ? "not valid" : ", not valid";
  if (remedy.host_bytes_a_node > 0) text += (text.empty() ? "" : ", ") + host_memory_words(remedy);
  return text;
}

std::string host_memory_words(const sim::Remedy& remedy) {
  const Settings& settings = remedy.settings;
  std::string text = fmt::format("takes {} of {} memory", format_bytes(remedy.host_bytes_a_node),
                                 settings.nodes > 1 ? "each host's" : "the host's");
  if (settings.nodes > 1) text += fmt::format(" ({} in all)", format_bytes(remedy.host_bytes_a_node * settings.nodes));
  return text;
}

Json remedy_json(const sim::Remedy& remedy) {
  Json cures = Json::array();
  for (const CauseKind cause : remedy.cures) cures.push_back(name(cause));
  return {{"setting", remedy.setting},
          {"choice", remedy.setting},  // the former name
          {"pytorch", remedy.pytorch},
          {"reason", remedy.reason},
          {"peak_reserved_bytes", remedy.peaks.reserved},
          {"peak_allocated_bytes", remedy.peaks.allocated},
          {"peak_active_bytes", remedy.peaks.active},
          {"step_ms", step_ms(remedy.has_time, remedy.step_ms)},
          {"saving_bytes", remedy.saving},
          {"costs_time", remedy.costs},
          {"may_run_out_of_memory", remedy.may_run_out_of_memory},
          {"retries_each_step", remedy.retries_each_step},
          {"valid", remedy.valid},
          {"not_valid", remedy.not_valid},
          {"warnings", remedy.warnings},
          {"cures", std::move(cures)},
          {"host_memory_bytes_a_node", remedy.host_bytes_a_node > 0 ? Json(remedy.host_bytes_a_node) : Json(nullptr)},
          {"tried", remedy.largest ? tried_json(*remedy.largest) : Json(nullptr)}};
}

}  // namespace foreshard::cli

// "/measurements": the runs, files and published tables that constants were fitted on, each group under a name.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "sim/machine/profile_sections.hpp"

namespace foreshard::sim {

void read_measurements(ProfileReader& reader, const nlohmann::json& section) {
  static constexpr std::array<std::string_view, 2> kKeys{"of", "source"};
  if (!section.is_object()) return reader.fail("/measurements", "an object is expected here");
  for (const auto& [name, entry] : section.items()) {
    const std::string place = "/measurements/" + name;
    if (name == kOwnCalibration)
      reader.fail(place, fmt::format("'{}' is the name of the profile's own record of calibrate or probe", name));
    reader.known_keys(entry, place, kKeys);
    Measurement out{name, {}, reader.text(entry, place, "source")};
    const nlohmann::json* of = reader.member(entry, place, "of");
    if (of != nullptr && !of->is_array()) reader.fail(place + "/of", "a list of names is expected here");
    if (reader.error()) return;
    for (const auto& one : *of) {
      if (!one.is_string()) return reader.fail(place + "/of", "a list of names is expected here");
      out.of.push_back(one.get<std::string>());
    }
    if (out.source.empty()) reader.fail(place, "a measurement needs a source");
    reader.measurement(std::move(out));
  }
}

void read_own_calibration(ProfileReader& reader, const nlohmann::json& record) {
  Measurement out{std::string(kOwnCalibration), {}, "the inputs of calibrate or probe"};
  if (!record.is_object() || !record.contains("inputs") || !record["inputs"].is_array()) return;
  for (const auto& input : record["inputs"]) {
    if (!input.is_object() || !input.contains("path") || !input["path"].is_string()) continue;
    const std::string path = input["path"].get<std::string>();
    const std::string file = path.substr(path.rfind('/') + 1);
    out.of.push_back(file);
    out.of.push_back(file.substr(0, file.find('.')));  // a recording's files are NAME.trace.json.xz, NAME.pickle.xz, …
  }
  reader.measurement(std::move(out));
}

}  // namespace foreshard::sim

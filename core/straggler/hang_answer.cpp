#include "core/straggler/hang_answer.hpp"

#include <nlohmann/json.hpp>

#include "core/base/json_io.hpp"

namespace foreshard {
namespace {

using Json = nlohmann::json;

/// Reading throws Json::exception where a member is missing or of another type.
std::uint32_t number(const Json& json) {
  if (!json.is_number_unsigned()) throw Json::type_error::create(302, "a number is wanted", &json);
  return json.get<std::uint32_t>();
}

std::vector<std::uint32_t> numbers(const Json& json) {
  std::vector<std::uint32_t> out;
  for (const Json& one : json.get_ref<const Json::array_t&>()) out.push_back(number(one));
  return out;
}

Nanoseconds time(const Json& json) {
  if (!json.is_number_integer()) throw Json::type_error::create(302, "a number is wanted", &json);
  return Nanoseconds{json.get<std::int64_t>()};
}

HangAnswer::Ranks ranks_of(const Json& json) {
  HangAnswer::Ranks out{
      numbers(json.at("ranks")), {}, json.at("host_stands_at").get<std::string>(), number(json.at("host_step"))};
  if (out.ranks.empty()) throw Json::type_error::create(302, "a rank is wanted", &json);
  for (const Json& wait : json.at("waits").get_ref<const Json::array_t&>())
    out.waits.push_back({wait.at("collective").get<std::string>(), wait.at("communicator").get<std::string>(),
                         number(wait.at("ranks")), numbers(wait.at("absent")), time(wait.at("issued_ns"))});
  return out;
}

}  // namespace

std::optional<HangAnswer> hang_answer(const Run& run) {
  const auto kept = run.results.find("hang");
  if (run.info.kind != RunKind::planned || kept == run.results.end()) return std::nullopt;
  const Json json = parse_json_text(kept->second);
  if (!json.is_object()) return std::nullopt;
  try {
    HangAnswer out;
    for (const Json& dead : json.at("dead").get_ref<const Json::array_t&>())
      out.dead.push_back({number(dead.at("rank")), number(dead.at("from_step"))});
    for (const Json& group : json.at("ranks").get_ref<const Json::array_t&>()) out.ranks.push_back(ranks_of(group));
    out.whole_steps = number(json.at("whole_steps"));
    out.last_whole_step_end = time(json.at("last_whole_step_end_ns"));
    return out;
  } catch (const Json::exception&) {  // not as foreshard writes it
    return std::nullopt;
  }
}

}  // namespace foreshard

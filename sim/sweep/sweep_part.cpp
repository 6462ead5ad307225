#include "sim/sweep/sweep_part.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/base/json_io.hpp"

namespace foreshard::sim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 4> kStates{"ran", "out of memory", "deadlock", "refused"};

Json json_of(std::size_t index, const SweepPoint& p) {
  return {{"point", index},
          {"state", kStates[static_cast<std::size_t>(p.state)]},
          {"reason", p.reason},
          {"has_time", p.has_time},
          {"step_ms", p.step_ms},
          {"host_ms", p.host_ms},
          {"exposed_communication_ms", p.exposed_communication_ms},
          {"host_bound", p.host_bound},
          {"uncertainty", p.uncertainty},
          {"difference", p.difference},
          {"tokens_per_s_per_gpu", p.tokens_per_s_per_gpu},
          {"peak_requested_bytes", p.peaks.requested},
          {"peak_allocated_bytes", p.peaks.allocated},
          {"peak_active_bytes", p.peaks.active},
          {"peak_reserved_bytes", p.peaks.reserved},
          {"least_reserved_bytes", p.least_reserved},
          {"most_reserved_bytes", p.most_reserved},
          {"may_run_out_of_memory", p.may_run_out_of_memory},
          {"num_alloc_retries", p.num_alloc_retries},
          {"step_num_alloc_retries", p.step_num_alloc_retries},
          {"valid", p.valid},
          {"not_valid", p.not_valid},
          {"warnings", p.warnings},
          {"not_as_asked", p.not_as_asked}};
}

/// Reads members of one object; the first that is not as json_of() writes it is the error.
class Members {
 public:
  Members(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}

  void read(const char* key, std::string& out) { value(key, &Json::is_string, out); }
  void read(const char* key, bool& out) { value(key, &Json::is_boolean, out); }
  void read(const char* key, double& out) { value(key, &Json::is_number, out); }
  void read(const char* key, std::uint64_t& out) { value(key, &Json::is_number_unsigned, out); }
  void read(const char* key, std::int64_t& out) { value(key, &Json::is_number_integer, out); }
  void read(const char* key, std::vector<std::string>& out) {
    const Json* list = member(key, &Json::is_array);
    if (list == nullptr) return;
    for (const Json& one : *list) {
      if (!one.is_string()) return wrong(key);
      out.push_back(one.get<std::string>());
    }
  }
  void wrong(std::string_view key) {
    if (!error_)
      error_ = Error{ErrorKind::input, fmt::format("'{}' is missing, or not what a part has there", key), where_,
                     "simulate this part again"};
  }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  const Json* member(const char* key, bool (Json::*is)() const noexcept) {
    const auto found = json_.find(key);
    if (found != json_.end() && ((*found).*is)()) return &*found;
    wrong(key);
    return nullptr;
  }
  template <class T>
  void value(const char* key, bool (Json::*is)() const noexcept, T& out) {
    if (const Json* found = member(key, is)) out = found->get<T>();
  }

  const Json& json_;
  std::string where_;
  std::optional<Error> error_;
};

SweepPoint point_of(Members& members) {
  SweepPoint p;
  std::string state;
  members.read("state", state);
  const auto known = std::find(kStates.begin(), kStates.end(), state);
  if (known == kStates.end()) members.wrong("state");
  p.state = static_cast<SweepPoint::State>(known - kStates.begin());
  members.read("reason", p.reason);
  members.read("has_time", p.has_time);
  for (const auto& [key, value] : {std::pair{"step_ms", &p.step_ms},
                                   {"host_ms", &p.host_ms},
                                   {"exposed_communication_ms", &p.exposed_communication_ms},
                                   {"uncertainty", &p.uncertainty},
                                   {"difference", &p.difference},
                                   {"tokens_per_s_per_gpu", &p.tokens_per_s_per_gpu}})
    members.read(key, *value);
  for (const auto& [key, value] : {std::pair{"peak_requested_bytes", &p.peaks.requested},
                                   {"peak_allocated_bytes", &p.peaks.allocated},
                                   {"peak_active_bytes", &p.peaks.active},
                                   {"peak_reserved_bytes", &p.peaks.reserved},
                                   {"least_reserved_bytes", &p.least_reserved},
                                   {"most_reserved_bytes", &p.most_reserved}})
    members.read(key, *value);
  members.read("host_bound", p.host_bound);
  members.read("may_run_out_of_memory", p.may_run_out_of_memory);
  members.read("num_alloc_retries", p.num_alloc_retries);
  members.read("step_num_alloc_retries", p.step_num_alloc_retries);
  members.read("valid", p.valid);
  members.read("not_valid", p.not_valid);
  members.read("warnings", p.warnings);
  members.read("not_as_asked", p.not_as_asked);
  return p;
}

}  // namespace

std::string part_text(const SweepPart& part, const std::string& fingerprint, const std::vector<SweepPoint>& points) {
  Json json{{"sweep_part", 1},         {"part", part.number},     {"parts", part.of}, {"fingerprint", fingerprint},
            {"points", points.size()}, {"results", Json::array()}};
  for (std::size_t i = part.number; i < points.size(); i += part.of) json["results"].push_back(json_of(i, points[i]));
  return json_text(json) + "\n";
}

Result<SweepPartFile> parse_part(std::string_view text, const std::string& where) {
  const Json json = parse_ordered_json_text(text);
  if (!json.is_object() || json.value("sweep_part", Json()) != Json(1))
    return fail(ErrorKind::input, "is no part of a sweep", where, "simulate this part again");
  SweepPartFile out;
  std::uint64_t number = 0, of = 0, points = 0;
  Members head(json, where);
  head.read("part", number);
  head.read("parts", of);
  head.read("points", points);
  head.read("fingerprint", out.fingerprint);
  const auto results = json.find("results");
  if (results == json.end() || !results->is_array()) head.wrong("results");
  if (of == 0 || of > kMaxSweepParts || number >= of) head.wrong("parts");
  if (points > kMaxPoints) head.wrong("points");
  if (head.error()) return tl::unexpected(*head.error());
  out.part = {static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(of)};
  out.points.resize(points);
  for (const Json& result : *results) {
    Members members(result, where + " results");
    std::uint64_t index = 0;
    if (!result.is_object()) members.wrong("point");
    if (!members.error()) members.read("point", index);
    if (!members.error() && (index >= points || !out.part.has(index) || out.points[index])) members.wrong("point");
    if (!members.error()) out.points[index] = point_of(members);
    if (members.error()) return tl::unexpected(*members.error());
  }
  if (results->size() != out.part.size(points))
    return fail(ErrorKind::input, fmt::format("has {} of {} points", results->size(), out.part.size(points)), where,
                "simulate this part again");
  return out;
}

}  // namespace foreshard::sim

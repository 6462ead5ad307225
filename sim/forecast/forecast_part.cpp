#include "sim/forecast/forecast_part.hpp"

#include <nlohmann/json.hpp>

namespace foreshard::sim {
namespace {

using Json = nlohmann::ordered_json;

constexpr PieceKind kKind{"seeds", kMaxSeeds};

Json json_of(const GrowthStep& g) {
  return {{"step", g.step},
          {"length", g.length},
          {"segments", g.segments},
          {"bytes", g.bytes},
          {"reserved", g.reserved},
          {"request", g.request},
          {"largest_request", g.largest_request},
          {"largest_segment", g.largest_segment}};
}

GrowthStep growth_of(PieceMembers& members) {
  GrowthStep g;
  members.read("step", g.step);
  members.read("length", g.length);
  members.read("segments", g.segments);
  members.read("bytes", g.bytes);
  members.read("reserved", g.reserved);
  members.read("request", g.request);
  members.read("largest_request", g.largest_request);
  members.read("largest_segment", g.largest_segment);
  return g;
}

Json json_of(const RetryStep& r) {
  return {{"step", r.step},         {"length", r.length}, {"retries", r.retries},
          {"released", r.released}, {"made", r.made},     {"request", r.request},
          {"bytes", r.bytes},       {"served", r.served}, {"driver", static_cast<std::uint64_t>(r.driver.count)}};
}

/// In nanoseconds.
Nanoseconds time_of(PieceMembers& members, const char* key) {
  std::uint64_t count = 0;
  members.read(key, count);
  if (count > INT64_MAX) members.wrong(key);
  return {static_cast<std::int64_t>(count)};
}

RetryStep retry_of(PieceMembers& members) {
  RetryStep r;
  members.read("step", r.step);
  members.read("length", r.length);
  members.read("retries", r.retries);
  members.read("released", r.released);
  members.read("made", r.made);
  members.read("request", r.request);
  members.read("bytes", r.bytes);
  members.read("served", r.served);
  r.driver = time_of(members, "driver");
  return r;
}

/// A column for each member: a list of ten thousand objects would be mostly names.
Json json_of(const std::vector<StepUse>& steps) {
  Json json{{"reserved", Json::array()},
            {"peak_reserved", Json::array()},
            {"peak_allocated", Json::array()},
            {"retries", Json::array()},
            {"released", Json::array()}};
  for (const StepUse& use : steps) {
    json["reserved"].push_back(use.reserved);
    json["peak_reserved"].push_back(use.peak_reserved);
    json["peak_allocated"].push_back(use.peak_allocated);
    json["retries"].push_back(static_cast<std::uint64_t>(use.retries));
    json["released"].push_back(static_cast<std::uint64_t>(use.released));
  }
  return json;
}

std::vector<StepUse> steps_of(PieceMembers& members) {
  std::vector<std::uint64_t> reserved, peak_reserved, peak_allocated, retries, released;
  members.read("reserved", reserved);
  members.read("peak_reserved", peak_reserved);
  members.read("peak_allocated", peak_allocated);
  members.read("retries", retries);
  members.read("released", released);
  std::vector<StepUse> out;
  for (const auto* column : {&peak_reserved, &peak_allocated, &retries, &released})
    if (column->size() != reserved.size()) members.wrong("reserved");
  if (members.error()) return out;
  for (std::size_t i = 0; i < reserved.size(); ++i) {
    if (retries[i] > INT32_MAX || released[i] > INT32_MAX) members.wrong("retries");
    out.push_back({reserved[i], peak_reserved[i], peak_allocated[i], static_cast<std::int32_t>(retries[i]),
                   static_cast<std::int32_t>(released[i])});
  }
  return out;
}

Json json_of(const FailedStep& f) {
  return {{"step", f.step},
          {"length", f.length},
          {"before_first", f.before_first},
          {"request", f.request},
          {"requested", f.report.requested},
          {"tried", f.report.tried},
          {"allowed", f.report.allowed},
          {"device_free", f.report.device_free},
          {"allocated", f.report.allocated},
          {"reserved", f.report.reserved},
          {"private_free", f.report.private_free},
          {"use", Json::array({json_of(std::vector{f.use})})}};
}

FailedStep failure_of(PieceMembers& members) {
  FailedStep f;
  members.read("step", f.step);
  members.read("length", f.length);
  members.read("before_first", f.before_first);
  members.read("request", f.request);
  for (const auto& [key, value] : {std::pair{"requested", &f.report.requested},
                                   {"tried", &f.report.tried},
                                   {"allowed", &f.report.allowed},
                                   {"device_free", &f.report.device_free},
                                   {"allocated", &f.report.allocated},
                                   {"reserved", &f.report.reserved},
                                   {"private_free", &f.report.private_free}})
    members.read(key, *value);
  members.each("use", [&](PieceMembers& use) {
    const std::vector<StepUse> one = steps_of(use);
    if (one.size() != 1) return use.wrong("reserved");
    f.use = one.front();
  });
  return f;
}

template <class T>
Json list_of(const std::vector<T>& all) {
  Json list = Json::array();
  for (const T& one : all) list.push_back(json_of(one));
  return list;
}

Json json_of(const SeedForecast& s) {
  return {{"steps", Json::array({json_of(s.steps)})},
          {"growth", list_of(s.growth)},
          {"retries", list_of(s.retries)},
          {"out_of_memory", s.out_of_memory ? Json::array({json_of(*s.out_of_memory)}) : Json::array()},
          {"driver_allocations", s.driver_allocations},
          {"driver_frees", s.driver_frees},
          {"driver_time", static_cast<std::uint64_t>(s.driver_time.count)},
          {"steps_giving_back", s.steps_giving_back},
          {"behind_recorded_first", s.behind_recorded_first},
          {"follows_recording", s.follows_recording}};
}

SeedForecast seed_of(PieceMembers& members) {
  SeedForecast s;
  members.each("steps", [&](PieceMembers& columns) { s.steps = steps_of(columns); });
  members.each("growth", [&](PieceMembers& one) { s.growth.push_back(growth_of(one)); });
  members.each("retries", [&](PieceMembers& one) { s.retries.push_back(retry_of(one)); });
  members.each("out_of_memory", [&](PieceMembers& one) { s.out_of_memory = failure_of(one); });
  members.read("driver_allocations", s.driver_allocations);
  members.read("driver_frees", s.driver_frees);
  s.driver_time = time_of(members, "driver_time");
  members.read("steps_giving_back", s.steps_giving_back);
  members.read("behind_recorded_first", s.behind_recorded_first);
  members.read("follows_recording", s.follows_recording);
  return s;
}

}  // namespace

std::string forecast_part_text(const Part& part, const std::string& fingerprint,
                               const std::vector<SeedForecast>& seeds) {
  return part_text(kKind, part, fingerprint, seeds.size(), [&](std::size_t i) { return json_of(seeds[i]); });
}

Result<PartFile<SeedForecast>> parse_forecast_part(std::string_view text, const std::string& where) {
  return read_part_file<SeedForecast>(kKind, text, where, seed_of);
}

}  // namespace foreshard::sim

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/base/json_io.hpp"
#include "sim/calibrate/input_json.hpp"
#include "sim/calibrate/nccl_tests.hpp"
#include "sim/calibrate/nccl_tests_run.hpp"

namespace foreshard::sim {
namespace {

using Json = nlohmann::json;

/// -R 1 registers buffers, -R 2 puts them in symmetric windows, -x 2 is the zero-CTA policy (nccl-tests common.cu).
Transport transport_of(const std::vector<std::string>& arguments, Transport otherwise) {
  const auto value = [&](std::string_view option, std::string_view long_option) -> std::string {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if ((arguments[i] == option || arguments[i] == long_option) && i + 1 < arguments.size()) return arguments[i + 1];
      if (arguments[i].starts_with(std::string(long_option) + "=")) return arguments[i].substr(long_option.size() + 1);
      if (arguments[i].starts_with(option) && arguments[i].size() > option.size() && arguments[i][1] != '-')
        return arguments[i].substr(option.size());
    }
    return {};
  };
  const std::string registered = value("-R", "--local_register");
  if (registered == "1") return Transport::nccl_registered;
  if (registered != "2") return otherwise;
  return value("-x", "--cta_policy") == "2" ? Transport::copy_engine : Transport::symmetric;
}

Result<void> read_devices(const Json& config, std::string_view where, NcclTestsRun& run) {
  const auto devices = config.find("devices");
  if (!config.is_object() || devices == config.end() || !devices->is_array())
    return fail(ErrorKind::input, "'config' has no list 'devices'", std::string(where),
                "is it a file of nccl-tests -J?");
  for (std::size_t i = 0; i < devices->size(); ++i) {
    InputObject device((*devices)[i], fmt::format("{} device {}", where, i));
    const std::string host = device.text("hostname");
    if (device.has("group") && device.whole("group", 0, 1u << 20) != 0) continue;
    if (run.gpu.empty() && device.has("device_info")) run.gpu = device.text("device_info");
    if (device.error() != nullptr) return tl::unexpected(*device.error());
    ++run.hosts[host];
  }
  return {};
}

Result<std::optional<NcclTestsTime>> read_half(const Json& row, const char* key, const std::string& place) {
  if (!row.contains(key) || row[key].is_null()) return std::nullopt;
  InputObject half(row[key], place + " " + key);
  if (half.error() != nullptr) return tl::unexpected(*half.error());
  NcclTestsTime time;
  time.us = half.positive(half.has("time") ? "time" : "cpu_time");
  time.algorithm_gb_per_s = half.positive("alg_bw");
  time.bus_gb_per_s = half.positive("bus_bw");
  if (half.has("nwrong") && row[key]["nwrong"] != 0.0)
    half.fail(fmt::format("'nwrong' is {}: the collective gave wrong results", json_text(row[key]["nwrong"])),
              "times of a broken collective are not used; find out why first");
  if (half.error() != nullptr) return tl::unexpected(*half.error());
  return time;
}

}  // namespace

Result<Measurements> read_nccl_tests_json(const Json& root, std::string_view where, const ReadOptions& options) {
  Measurements out;
  out.format = "nccl-tests JSON";
  std::vector<std::string> arguments;
  if (root.contains("args") && root["args"].is_array())
    for (const Json& argument : root["args"])
      if (argument.is_string()) arguments.push_back(argument.get<std::string>());
  NcclTestsRun run;
  if (!arguments.empty()) run.program = arguments[0];
  FORESHARD_TRY(read_devices(root["config"], where, run));
  if (!root["results"].is_array())
    return fail(ErrorKind::input, "'results' is no list", std::string(where), "is it a file of nccl-tests -J?");
  for (std::size_t i = 0; i < root["results"].size(); ++i) {
    const Json& result = root["results"][i];
    NcclTestsRow row;
    row.place = fmt::format("{} result {}", where, i);
    InputObject reader(result, row.place);
    if (reader.error() != nullptr) return tl::unexpected(*reader.error());
    row.bytes = reader.size("size", 0);
    if (reader.has("type")) row.type = reader.text("type");
    if (reader.has("redop")) row.operation = reader.text("redop");
    if (reader.error() != nullptr) return tl::unexpected(*reader.error());
    if (row.bytes == 0) {
      out.note("rows without bytes or a time");
      continue;
    }
    auto first = read_half(result, "out_of_place", row.place);
    FORESHARD_TRY(first);
    auto second = read_half(result, "in_place", row.place);
    FORESHARD_TRY(second);
    row.out_of_place = *first;
    row.in_place = *second;
    run.rows.push_back(std::move(row));
  }
  if (!root.contains("end_time")) out.note("no end_time: the run was cut short");
  FORESHARD_TRY(add_run(run, where, {transport_of(arguments, options.transport), options.kind}, out));
  return out;
}

}  // namespace foreshard::sim

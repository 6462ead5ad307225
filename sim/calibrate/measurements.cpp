#include "sim/calibrate/measurements.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/strict_json.hpp"
#include "sim/calibrate/nccl_tests.hpp"
#include "sim/calibrate/probe_file.hpp"
#include "sim/calibrate/topology.hpp"

namespace foreshard::sim {
namespace {

constexpr std::string_view kKnownFormats =
    "known: output of nccl-tests (text, or its -J file), NCCL_TOPO_DUMP_FILE's XML, a probe file (an array of rows, or "
    "a "
    "row a line), a run store";

Result<Measurements> read_json(std::string_view text, std::string_view where, const ReadOptions& options) {
  const auto root = parse_strict_json(text, where, kKnownFormats);
  FORESHARD_TRY(root);
  if (root->is_array()) return read_probe_file(*root, where);
  if (root->contains("op")) return read_probe_file(nlohmann::json::array({*root}), where);
  if (root->contains("results") && root->contains("config")) return read_nccl_tests_json(*root, where, options);
  if (root->contains("schema") && root->contains("name"))
    return fail(ErrorKind::input, "is a machine profile, not a measurement", std::string(where),
                "give it as --base to change it");
  return fail(ErrorKind::input, "is JSON, but neither of nccl-tests nor a probe file", std::string(where),
              std::string(kKnownFormats));
}

}  // namespace

double CollectiveSample::bus_gb_per_s() const {
  return bus_factor(kind, ranks) * static_cast<double>(bytes) / us / 1e3;
}

void Measurements::note(std::string_view text) {
  const auto it = std::find_if(notes.begin(), notes.end(), [&](const InputNote& n) { return n.text == text; });
  if (it == notes.end())
    notes.push_back({std::string(text), 1});
  else
    ++it->count;
}

std::size_t Measurements::samples() const {
  return collectives.size() + contention.size() + rates.size() + kernels.size() + (node ? 1 : 0) + (capture ? 1 : 0);
}

Result<Measurements> read_measurements(std::string_view text, std::string_view where, const ReadOptions& options) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos)
    return fail(ErrorKind::input, "is empty", std::string(where), std::string(kKnownFormats));
  const char start = text[first];
  auto read = [&]() -> Result<Measurements> {
    if (start == '<') return read_topology(text, where);
    if (looks_like_probe_lines(text)) return read_probe_lines(text, where);
    if (start == '{') return read_json(text, where, options);
    // A line of mpirun's begins with "[1,0]<stdout>:"; a probe file with "[{" or an empty list.
    const std::size_t second = text.find_first_not_of(" \t\r\n", first + 1);
    const bool list = start == '[' && (second == std::string_view::npos || text[second] == '{' || text[second] == ']');
    if (list) return read_json(text, where, options);
    if (looks_like_nccl_tests(text)) return read_nccl_tests_text(text, where, options);
    return fail(ErrorKind::input, "is no measurement that can be read", std::string(where), std::string(kKnownFormats));
  }();
  if (read && read->samples() == 0)
    return fail(ErrorKind::input, "holds nothing that a profile can use", std::string(where),
                "collectives that are used: all_gather, reduce_scatter, all_reduce");
  return read;
}

}  // namespace foreshard::sim

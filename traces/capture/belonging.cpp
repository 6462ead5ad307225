#include "traces/capture/belonging.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <vector>

#include "traces/capture/range_meaning.hpp"
#include "traces/capture/recorded_steps.hpp"

namespace foreshard::traces {
namespace {

constexpr const char* kSameRun = "give the files of one run";

tl::unexpected<Error> disagree(const std::string& file, std::string what, std::string hint = kSameRun) {
  return fail(ErrorKind::mismatch, std::move(what), file, std::move(hint));
}

const TraceDevice* device_of(const ProfilerTrace& trace) {
  for (const TraceDevice& device : trace.devices)
    if (device.id == trace.device) return &device;
  return nullptr;
}

/// The options as a set: their order does not matter, nor do blanks.
std::set<std::string> options_of(std::string_view alloc_conf) {
  std::set<std::string> options;
  int brackets = 0;
  std::string word;
  for (const char c : alloc_conf) {
    if (c == '[') ++brackets;
    if (c == ']') --brackets;
    if (c == ',' && brackets == 0) {
      if (!word.empty()) options.insert(word);
      word.clear();
    } else if (c != ' ') {
      word += c;
    }
  }
  if (!word.empty()) options.insert(word);
  return options;
}

std::string unit_name(const std::string& name) {
  return name.empty() ? "root unit" : "unit '" + name + "'";
}

}  // namespace

Result<void> check_trace(const ProfilerTrace& trace, const About& about, const FileNames& files) {
  const std::uint32_t world = about.settings.world();
  if (trace.world_size && *trace.world_size != world)
    return disagree(files.trace,
                    fmt::format("was recorded on {} ranks, but {} says {} nodes of {} GPUs", *trace.world_size,
                                files.about, about.settings.nodes, about.settings.gpus));
  if (trace.rank && *trace.rank != 0)
    return disagree(files.trace, fmt::format("is of rank {}, not of rank 0", *trace.rank),
                    "give rank 0's trace: shards and sizes are taken to be rank 0's");
  const TraceDevice* device = device_of(trace);
  if (device == nullptr) return {};
  if (!about.gpu.empty() && !device->name.empty() && device->name != about.gpu)
    return disagree(files.trace,
                    fmt::format("was recorded on '{}', but {} says '{}'", device->name, files.about, about.gpu));
  if (about.sm_count != 0 && device->sm_count != 0 && device->sm_count != about.sm_count)
    return disagree(files.trace, fmt::format("was recorded on a GPU of {} SMs, but {} says {}", device->sm_count,
                                             files.about, about.sm_count));
  return {};
}

Result<void> check_snapshot(const SnapshotFile& snapshot, const About& about, const FileNames& files) {
  const std::string& recorded = snapshot.snapshot.settings.alloc_conf;
  if (options_of(recorded) != options_of(about.settings.alloc_conf))
    return disagree(files.snapshot, fmt::format("was recorded under alloc_conf '{}', but {} says '{}'", recorded,
                                                files.about, about.settings.alloc_conf));
  return {};
}

Result<void> check_units(std::span<const Range> ranges, std::span<const Unit> units, const std::string& file,
                         const std::string& units_file) {
  std::set<std::string, std::less<>> seen;
  for (const Range& range : ranges) {
    const RangeMeaning meaning = meaning_of(range.name);
    if (has_unit(meaning.kind)) seen.emplace(meaning.unit);
  }
  if (seen.empty())
    return disagree(file, "has no FSDP range: it does not record an FSDP2 step",
                    "record at least one whole training step of a fully_shard model");
  std::vector<std::string_view> names;
  for (const Unit& unit : units) names.push_back(unit.name);
  for (const std::string& name : seen)
    if (std::find(names.begin(), names.end(), name) == names.end())
      return disagree(file, fmt::format("names the {}, which {} does not have", unit_name(name), units_file));
  for (const Unit& unit : units)
    if (!unit.parameters.empty() && !seen.contains(unit.name))
      return disagree(file, fmt::format("has no range of the {}, which {} has", unit_name(unit.name), units_file));
  return {};
}

Result<void> check_microbatches(const Hooks& hooks, const About& about, const std::string& file,
                                const FileNames& files) {
  const std::uint32_t seen = microbatches(hooks);
  if (seen != 0 && seen != about.settings.accumulate)
    return disagree(file, fmt::format("has {} microbatches a step, but {} says accumulate {}", seen, files.about,
                                      about.settings.accumulate));
  return {};
}

}  // namespace foreshard::traces

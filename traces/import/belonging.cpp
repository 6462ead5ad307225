#include "traces/import/belonging.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <vector>

#include "core/shard/layout.hpp"
#include "traces/capture/range_meaning.hpp"
#include "traces/import/recorded_steps.hpp"

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

/// Ranks of the groups that all-gather and reduce-scatter: the shard group, and those that keep a unit after forward.
bool is_shard_group(const Settings& settings, std::uint64_t ranks) {
  const auto keeps = [&](const Reshard& r) { return r.kind == Reshard::Kind::group && r.group_size == ranks; };
  return ranks == settings.shard_ranks() || keeps(settings.reshard_after_forward) ||
         std::any_of(settings.reshard_of_unit.begin(), settings.reshard_of_unit.end(),
                     [&](const auto& unit) { return keeps(unit.second); });
}

/// Group sizes and use of the copy engines, as the trace's collectives show them.
Result<void> check_collectives(const ProfilerTrace& trace, const About& about, const FileNames& files) {
  bool gathers = false;
  bool by_copy_engine = false;
  std::set<std::uint64_t> group_sizes;
  for (const DeviceOpRecord& op : trace.run.device_ops) {
    if (op.kind != DeviceOpRecord::Kind::collective || !of_fsdp(op.collective) ||
        op.collective == CollectiveKind::all_reduce)
      continue;
    if (op.collective == CollectiveKind::all_gather) {
      gathers = true;
      by_copy_engine = by_copy_engine || op.transport == Transport::copy_engine;
    }
    if (!op.communicator.valid() || op.communicator.value >= trace.communicators.size()) continue;
    const std::uint64_t ranks = trace.communicators[op.communicator.value].size;
    if (ranks > 1) group_sizes.insert(ranks);
  }
  // The program may have groups of its own (sequence parallelism); FSDP2's must be among them.
  const auto is_fsdp = [&](std::uint64_t ranks) { return is_shard_group(about.settings, ranks); };
  if (!group_sizes.empty() && std::none_of(group_sizes.begin(), group_sizes.end(), is_fsdp))
    return disagree(files.trace, fmt::format("gathers over {} ranks, but {} shards over {}", *group_sizes.begin(),
                                             files.about, about.settings.shard_ranks()));
  const Transport said = about.settings.all_gather;
  const bool says_nccl = said == Transport::nccl || said == Transport::nccl_registered;
  if (gathers && by_copy_engine && says_nccl)
    return disagree(files.trace, fmt::format("gathers through copy engines, but {} says all_gather nccl", files.about));
  if (gathers && !by_copy_engine && said == Transport::copy_engine)
    return disagree(files.trace, fmt::format("gathers with kernels, but {} says all_gather copy-engine", files.about));
  return {};
}

std::string unit_name(const std::string& name) {
  return name.empty() ? "root unit" : "unit '" + name + "'";
}

}  // namespace

std::string uneven_shards(const ProfilerTrace& trace, const Settings& settings, std::span<const Unit> units) {
  if (trace.rank.value_or(0) == 0) return {};
  const ShardGroup group = shard_dimension(settings);
  for (const Unit& unit : units)
    for (const Parameter& parameter : unit.parameters)
      if (unsharded_numel(parameter, group) != parameter.numel())
        return fmt::format(
            "the recording is of rank {}, and '{}' does not divide by {} ranks, so that rank 0's shard "
            "of it has another size: record rank 0",
            *trace.rank, parameter.name, group.of(parameter).ranks);
  return {};
}

Result<void> check_trace(const ProfilerTrace& trace, const About& about, std::uint32_t meshes, const FileNames& files) {
  const std::uint64_t world = std::uint64_t{about.settings.world()} * meshes;
  if (trace.world_size && *trace.world_size != world)
    return disagree(files.trace,
                    fmt::format("was recorded on {} ranks, but {} says {} nodes of {} GPUs", *trace.world_size,
                                files.about, about.settings.nodes, about.settings.gpus));
  FORESHARD_TRY(check_collectives(trace, about, files));
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

namespace {

/// Names of FSDP's ranges that begin in the last complete step.
std::vector<std::string_view> order_of(const RecordedRanges& recorded) {
  const StepPlaces* last = nullptr;
  for (const StepPlaces& step : recorded.hooks.steps)
    if (step.complete) last = &step;
  std::vector<std::string_view> names;
  if (last == nullptr) return names;
  for (const Range& range : recorded.ranges)
    if (range.start >= last->begin && range.start < last->end && range.name.starts_with("FSDP::"))
      names.push_back(range.name);
  return names;
}

}  // namespace

Result<void> check_order(const RecordedRanges& snapshot, const RecordedRanges& trace) {
  const auto a = order_of(snapshot);
  const auto b = order_of(trace);
  if (a.empty() || b.empty()) return {};
  const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (in_a == a.end() && in_b == b.end()) return {};
  const auto shown = [](auto at, const auto& names) {
    return at == names.end() ? std::string("ends the step") : fmt::format("goes on with {}", *at);
  };
  return disagree(trace.file, fmt::format("{} where {} {} (FSDP range {} of a step)", shown(in_b, b), snapshot.file,
                                          shown(in_a, a), in_a - a.begin()));
}

Result<void> check_time(const ProfiledStep& profiled, const Measured& measured, const FileNames& files) {
  if (measured.step_ms.empty() || profiled.step_ms <= 0) return {};
  // Over the reference runs a trace's step is never under 0.98 of the measured median, its busy time never over.
  constexpr double kShorter = 0.85;
  constexpr double kBusier = 1.1;
  std::vector<double> steps = measured.step_ms;
  std::nth_element(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2), steps.end());
  const double median = steps[steps.size() / 2];
  if (profiled.step_ms < median * kShorter)
    return disagree(files.trace, fmt::format("has steps of {:.1f} ms, but {} measured {:.1f} ms without a profiler",
                                             profiled.step_ms, files.about, median));
  if (profiled.compute_busy_ms > median * kBusier)
    return disagree(files.trace,
                    fmt::format("keeps the GPU busy for {:.1f} ms a step, but {} measured steps of {:.1f} ms",
                                profiled.compute_busy_ms, files.about, median));
  return {};
}

}  // namespace foreshard::traces

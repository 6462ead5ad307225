#include <fmt/format.h>

#include <algorithm>

#include "core/base/json_io.hpp"
#include "sim/machine/profile.hpp"
#include "traces/capture/range_meaning.hpp"
#include "traces/capture/roots.hpp"
#include "traces/infer/element_sizes.hpp"
#include "traces/infer/inference.hpp"
#include "traces/infer/inferred_settings.hpp"
#include "traces/infer/parameters.hpp"
#include "traces/infer/user_program.hpp"

namespace foreshard::traces {
namespace {

std::vector<std::uint32_t> known_sm_counts() {
  std::vector<std::uint32_t> counts;
  for (const std::string_view name : sim::builtin_profile_names()) {
    const auto profile = sim::builtin_profile(name);
    if (profile && std::find(counts.begin(), counts.end(), profile->sm_count) == counts.end())
      counts.push_back(profile->sm_count);
  }
  return counts;
}

void say_header(const InferInput& input, Inference& out) {
  const std::string conf = input.snapshot.settings.alloc_conf;
  out.settings.alloc_conf = conf;
  out.set({"alloc_conf", json_quoted(conf), "the snapshot's allocator settings"});
  out.set({"pytorch", json_quoted(out.settings.pytorch), "neither recording names it", false});
  if (input.trace == nullptr) return;
  for (const TraceDevice& device : input.trace->devices)
    if (device.id == input.trace->device && !device.name.empty())
      out.set({"gpu", json_quoted(device.name), "the trace's deviceProperties"});
  if (!input.trace->run.info.nccl.empty())
    out.set({"nccl", json_quoted(input.trace->run.info.nccl), "the trace's distributedInfo"});
}

void say_units(const InferredParameters& found, const ElementTypes& types, Inference& out) {
  std::size_t parameters = 0;
  for (const Unit& unit : found.units) parameters += unit.parameters.size();
  out.set({"units", std::to_string(found.units.size()), "FSDP's ranges, by their first forward"});
  out.set(
      {"parameters", std::to_string(parameters),
       fmt::format("storages of each unit's first copy-out over {} ranks, in {}", types.ranks, name(types.original)),
       !types.size_assumed && !types.word_assumed});
  if (found.frozen > 0)
    out.set({"frozen", std::to_string(found.frozen),
             fmt::format("parameters whose gradients are in no reduction{}",
                         found.alike > 0 ? fmt::format("; in {} units others have their size", found.alike) : ""),
             found.alike == 0});
  if (found.alike > 0)
    out.unsettled.push_back(
        fmt::format("which parameters are frozen in {} units that have trained ones of the same size: the last are "
                    "taken to be trained",
                    found.alike));
  out.unsettled.emplace_back("names of parameters are not in a recording: they are called by unit and place");
  if (found.flat > 0)
    out.unsettled.push_back(
        fmt::format("{} parameters show no padding: their rows are unknown, and plans over other numbers of shard "
                    "ranks pad them by elements",
                    found.flat));
}

/// Why units of several parameter groups have no workload without an about file: a clause, or an empty text.
std::string several_groups(std::span<const Range> ranges) {
  for (const Range& range : ranges)
    if (const RangeMeaning meaning = meaning_of(range.name); meaning.group > 0)
      return fmt::format(
          "unit '{}' has parameters on several meshes ('{}'), and a recording does not say which on which: an about "
          "file whose units have `groups` does",
          meaning.unit, range.name);
  return {};
}

}  // namespace

const InferredItem* Inference::item(std::string_view key) const {
  const auto it = std::find_if(items.begin(), items.end(), [&](const InferredItem& i) { return i.key == key; });
  return it == items.end() ? nullptr : &*it;
}

void Inference::set(InferredItem item) {
  const auto it = std::find_if(items.begin(), items.end(), [&](const InferredItem& i) { return i.key == item.key; });
  if (it != items.end())
    *it = std::move(item);
  else
    items.push_back(std::move(item));
}

Inference infer(const InferInput& input) {
  Inference out;
  out.recorded = recorded_units(input.events, input.ranges);
  const ElementTypes types = element_types(out.recorded, input.trace);
  InferredParameters found = infer_parameters(out.recorded, types);
  out.why_not = several_groups(input.ranges);
  if (std::string roots = two_roots(input.events, input.ranges); !roots.empty())
    out.why_not = fmt::format("{}; {}", roots, kOneRootHint);
  if (out.why_not.empty()) out.why_not = found.why_not;
  say_header(input, out);
  if (!out.why_not.empty()) return out;
  say_units(found, types, out);
  out.units = std::move(found.units);
  infer_sm_count(input, known_sm_counts(), types, out);
  infer_world(input, types, out);
  infer_dtypes(types, out);
  infer_reshard(out);
  infer_units_per_group(out);
  infer_prefetch(input, out);
  infer_buffers(input, out);
  infer_reduce_scatter_group(input, out);
  infer_steps(input, out);
  infer_checkpoint(input, out);
  infer_inputs(input, out);
  return out;
}

}  // namespace foreshard::traces

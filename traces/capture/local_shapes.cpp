#include "traces/capture/local_shapes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/shard/layout.hpp"
#include "traces/capture/range_meaning.hpp"

namespace foreshard::traces {
namespace {

/// Sizes of the first `count` allocations within a range.
std::vector<Bytes> allocations_in(std::span<const CaptureEvent> events, const Range& range, std::size_t count) {
  std::vector<Bytes> out;
  auto at = std::lower_bound(events.begin(), events.end(), range.start,
                             [](const CaptureEvent& e, Nanoseconds time) { return e.time < time; });
  for (; at != events.end() && at->time <= range.end && out.size() < count; ++at)
    if (at->allocates) out.push_back(at->size);
  return out;
}

Bytes unsharded_bytes(const Parameter& p, const Settings& settings) {
  const ShardGroup group{settings.shard_ranks(), 0};
  return padded_shard_numel(p, group) * group.ranks * itemsize(settings.param_dtype.value_or(p.dtype));
}

/// The parameter as this rank's local tensor of `bytes`; false: no division gives it.
bool make_local(Parameter& p, const Settings& settings, Bytes bytes) {
  if (unsharded_bytes(p, settings) == bytes) return true;
  const auto parts = static_cast<std::int64_t>(settings.tensor_parallel);
  for (std::size_t d = 0; d < p.shape.size(); ++d) {
    Parameter local = p;
    local.shape[d] = (p.shape[d] + parts - 1) / parts;  // rank 0's chunk of Shard(d)
    if (unsharded_bytes(local, settings) != bytes) continue;
    p = std::move(local);
    return true;
  }
  return false;
}

}  // namespace

Result<void> set_local_shapes(std::vector<Unit>& units, const Settings& settings, std::span<const CaptureEvent> events,
                              std::span<const Range> ranges) {
  if (settings.tensor_parallel == 1) return {};
  const UnitNames names(units);
  std::set<UnitId> seen;
  for (const Range& range : ranges) {
    const RangeMeaning meaning = meaning_of(range.name);
    if (meaning.kind != RangeKind::copy_out) continue;
    const auto unit = names.find(meaning.unit);
    if (!unit || !seen.insert(*unit).second) continue;
    std::vector<Parameter>& parameters = units[unit->value].parameters;
    const std::vector<Bytes> sizes = allocations_in(events, range, parameters.size());
    if (sizes.size() != parameters.size()) continue;
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (!make_local(parameters[i], settings, sizes[i]))
        return fail(ErrorKind::mismatch,
                    fmt::format("the recording unshards '{}' to {} bytes, which neither its shape nor a division of it "
                                "by tensor_parallel {} gives",
                                parameters[i].name, sizes[i], settings.tensor_parallel),
                    fmt::format("unit \"{}\"", units[unit->value].name),
                    "correct its shape, its place in the unit, or tensor_parallel");
  }
  return {};
}

}  // namespace foreshard::traces

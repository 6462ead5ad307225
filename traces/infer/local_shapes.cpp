#include "traces/infer/local_shapes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/shard/layout.hpp"

namespace foreshard::traces {
namespace {

Bytes unsharded_bytes(const Parameter& p, const Settings& settings) {
  return unsharded_numel(p, shard_dimension(settings)) * itemsize(settings.param_dtype.value_or(p.dtype));
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

Result<void> set_local_shapes(std::vector<Unit>& units, const Settings& settings,
                              std::span<const RecordedUnit> recorded) {
  if (settings.tensor_parallel == 1) return {};
  for (Unit& unit : units) {
    const auto found =
        std::find_if(recorded.begin(), recorded.end(), [&](const RecordedUnit& r) { return r.name == unit.name; });
    if (found == recorded.end() || found->gather.unsharded.size() != unit.parameters.size()) continue;
    for (std::size_t i = 0; i < unit.parameters.size(); ++i)
      if (!make_local(unit.parameters[i], settings, found->gather.unsharded[i]))
        return fail(ErrorKind::mismatch,
                    fmt::format("the recording unshards '{}' to {} bytes, which neither its shape nor a division of it "
                                "by tensor_parallel {} gives",
                                unit.parameters[i].name, found->gather.unsharded[i], settings.tensor_parallel),
                    fmt::format("unit \"{}\"", unit.name),
                    "correct its shape, its place in the unit, or tensor_parallel");
  }
  return {};
}

}  // namespace foreshard::traces

// What each device op inside an FSDP section is (fsdp2 semantics 2.3, 2.6, 3.2, 5.4b), from its name and
// its place. In async captures cast and copy-in run on the compute stream; their roles are the same.
//
// Who: the time side of a capture. Pure, deterministic, thread-safe.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/run/run.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::traces {

struct SectionOp {
  std::string_view name;
  DeviceOpRecord::Kind kind = DeviceOpRecord::Kind::kernel;
};

/// The roles of a section's ops, in their order. `casts_shards`: the unit's parameters are gathered in
/// another dtype than they are stored in, without CPU offload; it decides only where names do not.
[[nodiscard]] std::vector<SectionRole> section_roles(Section section, std::span<const SectionOp> ops,
                                                     bool casts_shards);

}  // namespace foreshard::traces

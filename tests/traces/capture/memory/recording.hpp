// A synthetic recording: a workload is run on a scripted device, and what its allocator heard becomes a Snapshot with
// FSDP's annotations, as PyTorch would have written it. So a capture of it must give the workload back.
#pragma once

#include <string>
#include <vector>

#include "core/allocator/snapshot.hpp"
#include "core/run/run.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::traces::test {

struct Recorded {
  Snapshot snapshot;
  Run run;
};

/// Runs setup and the steps at `settings`. No entry and no annotation share a microsecond, but for ranges that FSDP
/// opens and closes at once.
[[nodiscard]] Recorded record(const Workload& workload, const Settings& settings, std::int32_t steps = 4);

/// One line a request: action, bytes, stream, address.
[[nodiscard]] std::vector<std::string> requests_of(const Run& run);

/// The first line in which two lists differ; empty: none.
[[nodiscard]] std::string difference(const std::vector<std::string>& got, const std::vector<std::string>& want);

}  // namespace foreshard::traces::test

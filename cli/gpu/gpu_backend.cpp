// Linked into foreshard-gpu alone: says that this program can be a rank.

#include "cli/verbs/gpu_backend.hpp"

#include <cstdlib>

#include "cli/gpu/gpu_probe.hpp"
#include "cli/gpu/gpu_run.hpp"

namespace foreshard::cli {
namespace {

/// Streams beyond the hardware queues share one, and a collective's wait for a peer's flag would hold up the kernels
/// behind it; CUDA reads this once, at its start (CUDA C++ Programming Guide, environment variables).
void ask_for_hardware_queues() {
  constexpr int kKeep = 0;  // what the user has set stays
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", kKeep);
}

Result<int> run_on_gpu(const RunOptions& options, Console& console) {
  ask_for_hardware_queues();
  return run_rank(options, console);
}

Result<int> probe_on_gpu(const ProbeOptions& options, Console& console) {
  ask_for_hardware_queues();
  return probe_rank(options, console);
}

constexpr GpuBackend kBackend{.run = run_on_gpu, .probe = probe_on_gpu};
const GpuRegistration kRegistered{kBackend};

}  // namespace
}  // namespace foreshard::cli

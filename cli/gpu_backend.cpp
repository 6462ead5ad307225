// Linked into foreshard-gpu alone: says that this program can be a rank.

#include "cli/gpu_backend.hpp"

#include "cli/gpu_probe.hpp"
#include "cli/gpu_run.hpp"

namespace foreshard::cli {
namespace {

constexpr GpuBackend kBackend{.run = run_rank, .probe = probe_rank};
const GpuRegistration kRegistered{kBackend};

}  // namespace
}  // namespace foreshard::cli

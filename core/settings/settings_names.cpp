#include <array>

#include "core/settings/settings_table.hpp"

namespace foreshard {
namespace {

// In the order of the enumerations, whose values are the indices.
constexpr std::array<std::string_view, 3> kReleases{"auto", "stash", "record-stream"};
constexpr std::array<std::string_view, 2> kGatherAllocs{"copy-in", "compute"};
constexpr std::array<std::string_view, 4> kCheckpoints{"none", "blocks", "selective-op", "selective-layer"};
constexpr std::array<std::string_view, 2> kKernels{"eager", "fused"};
constexpr std::array<std::string_view, 4> kOptimizers{"adam", "adam-fused", "adam-single", "sgd"};
constexpr std::array<std::string_view, 5> kTransports{"nccl", "nccl-registered", "symmetric", "copy-engine",
                                                      "low-contention"};
static_assert(static_cast<std::size_t>(Release::record_stream) + 1 == kReleases.size());
static_assert(static_cast<std::size_t>(GatherAlloc::compute) + 1 == kGatherAllocs.size());
static_assert(static_cast<std::size_t>(Checkpoint::selective_layer) + 1 == kCheckpoints.size());
static_assert(static_cast<std::size_t>(Kernels::fused) + 1 == kKernels.size());
static_assert(static_cast<std::size_t>(Optimizer::sgd) + 1 == kOptimizers.size());
static_assert(static_cast<std::size_t>(Transport::low_contention) + 1 == kTransports.size());

}  // namespace

std::string_view name(Release release) {
  return kReleases.at(static_cast<std::size_t>(release));
}
std::string_view name(GatherAlloc gather_alloc) {
  return kGatherAllocs.at(static_cast<std::size_t>(gather_alloc));
}
std::string_view name(Checkpoint checkpoint) {
  return kCheckpoints.at(static_cast<std::size_t>(checkpoint));
}
std::string_view name(Kernels kernels) {
  return kKernels.at(static_cast<std::size_t>(kernels));
}
std::string_view name(Optimizer optimizer) {
  return kOptimizers.at(static_cast<std::size_t>(optimizer));
}
std::string_view name(Transport transport) {
  return kTransports.at(static_cast<std::size_t>(transport));
}

std::string name(const Reshard& reshard) {
  if (reshard.kind == Reshard::Kind::group) return std::to_string(reshard.group_size);
  return reshard.kind == Reshard::Kind::always ? "true" : "false";
}

}  // namespace foreshard

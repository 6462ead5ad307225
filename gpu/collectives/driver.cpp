#include "gpu/collectives/driver.hpp"

#include <fmt/format.h>

namespace foreshard::gpu {
namespace {

constexpr unsigned kOldestDriver = 12050;  // what NCCL 2.28 asks of a driver for copy-engine collectives

template <class Function>
Result<void> find(const char* name, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status{};
  FORESHARD_TRY(check(cudaGetDriverEntryPointByVersion(name, &found, kOldestDriver, cudaEnableDefault, &status), name));
  if (status != cudaDriverEntryPointSuccess || found == nullptr)
    return fail(ErrorKind::mismatch, fmt::format("the CUDA driver has no {}", name), {},
                "install a driver of CUDA 12.5 or newer");
  function = reinterpret_cast<Function>(found);
  return {};
}

Result<Driver> load() {
  Driver d;
  FORESHARD_TRY(find("cuMemCreate", d.mem_create));
  FORESHARD_TRY(find("cuMemRelease", d.mem_release));
  FORESHARD_TRY(find("cuMemMap", d.mem_map));
  FORESHARD_TRY(find("cuMemUnmap", d.mem_unmap));
  FORESHARD_TRY(find("cuMemSetAccess", d.mem_set_access));
  FORESHARD_TRY(find("cuMemAddressReserve", d.mem_address_reserve));
  FORESHARD_TRY(find("cuMemAddressFree", d.mem_address_free));
  FORESHARD_TRY(find("cuMemGetAllocationGranularity", d.mem_granularity));
  FORESHARD_TRY(find("cuMemExportToShareableHandle", d.mem_export));
  FORESHARD_TRY(find("cuMemImportFromShareableHandle", d.mem_import));
  FORESHARD_TRY(find("cuStreamBatchMemOp", d.stream_batch_mem_op));
  FORESHARD_TRY(find("cuFuncGetName", d.func_get_name));
  FORESHARD_TRY(find("cuKernelGetName", d.kernel_get_name));
  FORESHARD_TRY(find("cuGraphGetNodes", d.graph_nodes));
  FORESHARD_TRY(find("cuGraphNodeGetType", d.graph_node_type));
  FORESHARD_TRY(find("cuGraphKernelNodeGetParams", d.graph_kernel_node_params));
  FORESHARD_TRY(find("cuDeviceGetAttribute", d.device_get_attribute));
  return d;
}

}  // namespace

Result<const Driver*> driver() {
  static const Result<Driver> loaded = load();
  FORESHARD_TRY(loaded);
  return &*loaded;
}

Result<void> check(cudaError_t code, std::string_view call) {
  if (code == cudaSuccess) return {};
  const ErrorKind kind = code == cudaErrorMemoryAllocation ? ErrorKind::out_of_memory : ErrorKind::mismatch;
  return fail(kind, fmt::format("{}: {} ({})", call, cudaGetErrorName(code), cudaGetErrorString(code)));
}

Result<void> check(CUresult code, std::string_view call) {
  // The driver's codes and the runtime's have the same numbers (driver_types.h, cudaError).
  return check(static_cast<cudaError_t>(code), call);
}

}  // namespace foreshard::gpu

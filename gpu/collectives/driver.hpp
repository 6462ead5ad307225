// The CUDA driver's functions that collectives need (virtual memory, stream memory operations), found through the CUDA
// runtime so that nothing links against libcuda, and how the return codes of CUDA become Errors.
//
// Who: gpu/collectives only. Thread safety: read-only after the first call.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string_view>

#include "core/base/error.hpp"

namespace foreshard::gpu {

/// One entry a function, with the types of <cuda.h>.
struct Driver {
  decltype(&::cuMemCreate) mem_create = nullptr;
  decltype(&::cuMemRelease) mem_release = nullptr;
  decltype(&::cuMemMap) mem_map = nullptr;
  decltype(&::cuMemUnmap) mem_unmap = nullptr;
  decltype(&::cuMemSetAccess) mem_set_access = nullptr;
  decltype(&::cuMemAddressReserve) mem_address_reserve = nullptr;
  decltype(&::cuMemAddressFree) mem_address_free = nullptr;
  decltype(&::cuMemGetAllocationGranularity) mem_granularity = nullptr;
  decltype(&::cuMemExportToShareableHandle) mem_export = nullptr;
  decltype(&::cuMemImportFromShareableHandle) mem_import = nullptr;
  decltype(&::cuStreamBatchMemOp) stream_batch_mem_op = nullptr;
  decltype(&::cuFuncGetName) func_get_name = nullptr;
  decltype(&::cuKernelGetName) kernel_get_name = nullptr;
  decltype(&::cuGraphGetNodes) graph_nodes = nullptr;
  decltype(&::cuGraphNodeGetType) graph_node_type = nullptr;
  decltype(&::cuGraphKernelNodeGetParams) graph_kernel_node_params = nullptr;
  decltype(&::cuDeviceGetAttribute) device_get_attribute = nullptr;
};

/// The loaded driver. Errors: no driver, or one older than CUDA 12.5's.
[[nodiscard]] Result<const Driver*> driver();

/// Success, or an error of kind `device` that names `call` and CUDA's own name and text for the code; out_of_memory
/// where that is the code.
[[nodiscard]] Result<void> check(cudaError_t code, std::string_view call);
[[nodiscard]] Result<void> check(CUresult code, std::string_view call);

}  // namespace foreshard::gpu

// Library workspaces that a second stream makes anew: cuBLAS keeps one for each handle and stream
// (CUDABlas.cpp, getCUDABlasWorkspace: the map's key is both), each made by the first product there.
//
// Who: the runner, for the first step on the stream of a CUDA graph's capture.
#pragma once

#include <cstddef>
#include <vector>

#include "core/workload/workload.hpp"

namespace foreshard {

/// One workspace of the first step, and where in the step it is made: before the alloc that has so many others, but for
/// workspaces, behind the phase's hook.
struct LibraryWorkspace {
  Hook phase = Hook::forward_begin;
  std::size_t allocs_before = 0;
  Bytes bytes = 0;
};

/// Of the passes of `first`, the program of a process's first step, in order.
[[nodiscard]] inline std::vector<LibraryWorkspace> library_workspaces(const Program& first) {
  std::vector<LibraryWorkspace> out;
  LibraryWorkspace next;
  bool inside = false;
  for (const Op& op : first.ops) {
    if (op.kind == OpKind::hook && (op.hook == Hook::forward_begin || op.hook == Hook::backward_begin)) {
      next = {op.hook, 0, 0};
      inside = true;
    }
    if (op.kind == OpKind::hook && op.hook == Hook::backward_end) inside = false;
    if (op.kind != OpKind::alloc || !inside) continue;
    if (op.category != MemoryCategory::workspaces) {
      ++next.allocs_before;
      continue;
    }
    next.bytes = op.size.bytes;
    out.push_back(next);
  }
  return out;
}

}  // namespace foreshard

// What a program's allocations are called: the operator whose kernel follows, and the module that runs then.
//
// Who: core/step for the blocks of a plan, traces/capture for those of a recording. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/workload/workload.hpp"

namespace foreshard {

struct AllocationName {
  LabelId op;
  LabelId module;
};

/// By place in `program.ops`; invalid for what is no alloc and where nothing tells. New names go to `labels`, which
/// must begin with the workload's.
///
/// The operator: the op's own label, else that of the kernel or copy that is launched next: PyTorch's operators
/// allocate their outputs, then launch. A hook ends the search. A recording's memory and kernels are of two steps, laid
/// over each other by time: there the name is "near" and the kernel's (kernel_title), a kernel that is over too soon to
/// have written the block is passed over, and where none follows, one before it is taken. The module: the op's own,
/// else the unit between whose hooks it stands, else "(loss)" between the root's forward and its backward.
[[nodiscard]] std::vector<AllocationName> allocation_names(const Workload& workload, const Program& program,
                                                           Labels& labels);

/// A kernel in one word: "direct_copy_kernel_cuda" of "void at::native::unrolled_elementwise_kernel<at::native::…>",
/// the function that PyTorch's generic kernels apply; "AllGather RING_LL" of NCCL's
/// "ncclDevKernel_AllGather_RING_LL(…)"; a library's GEMM or attention as that; else the kernel's own name without
/// namespaces and arguments.
[[nodiscard]] std::string kernel_title(std::string_view kernel);

/// Whether a device op's label is the symbol of a kernel as the profiler has it.
[[nodiscard]] bool is_kernel_symbol(std::string_view label);

/// A device op's label for people, in every report, picture and page: kernel_title() of a symbol; else the label, which
/// names an operator or a copy.
[[nodiscard]] std::string op_title(std::string_view label);
/// The same in at most 48 bytes, and "…" where that cuts it: for sentences and tables.
[[nodiscard]] std::string short_op_title(std::string_view label);

}  // namespace foreshard

#include "core/settings/python_classes.hpp"

namespace foreshard {

const std::string_view kSymmetricAllGather = R"(import torch.distributed._symmetric_memory as symm
from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather

class SymmetricAllGather(AllGather):
    def __init__(self, group):
        symm.set_backend("NCCL")
        torch.distributed.barrier(group=group)
        self.pool = symm.get_mem_pool(torch.device("cuda", torch.cuda.current_device()))

    def allocate(self, size, *, dtype, device):
        with torch.cuda.use_mem_pool(self.pool):
            return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        symm.rendezvous(output_tensor, group=group.group_name)
        return torch.distributed.all_gather_into_tensor(
            output_tensor, input_tensor, group=group, async_op=async_op)
)";

const std::string_view kSymmetricReduceScatter = R"(import torch.distributed._symmetric_memory as symm
from torch.distributed.fsdp._fully_shard._fsdp_api import ReduceScatter

class SymmetricReduceScatter(ReduceScatter):
    def __init__(self, group):
        symm.set_backend("NCCL")
        torch.distributed.barrier(group=group)
        self.pool = symm.get_mem_pool(torch.device("cuda", torch.cuda.current_device()))

    def allocate(self, size, *, dtype, device):
        with torch.cuda.use_mem_pool(self.pool):
            return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        symm.rendezvous(input_tensor, group=group.group_name)
        symm.rendezvous(output_tensor, group=group.group_name)
        return torch.distributed.reduce_scatter_tensor(
            output_tensor, input_tensor, op=op, group=group, async_op=async_op)
)";

const std::string_view kSeparateReduceScatter =
    R"(from torch.distributed.fsdp._fully_shard._fsdp_api import ReduceScatter

class SeparateReduceScatter(ReduceScatter):
    def __init__(self, group):
        ranks = torch.distributed.get_process_group_ranks(group)
        self.group = torch.distributed.new_group(ranks, use_local_synchronization=True)

    def allocate(self, size, *, dtype, device):
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        return torch.distributed.reduce_scatter_tensor(
            output_tensor, input_tensor, op=op, group=self.group, async_op=async_op)
)";

}  // namespace foreshard

#include <algorithm>
#include <array>

#include "traces/store/schema.hpp"

namespace foreshard::traces {
namespace {

constexpr auto kInteger = ColumnType::integer;
constexpr auto kReal = ColumnType::real;
constexpr auto kText = ColumnType::text;

constexpr std::array kSettings{
    Column{"key", kText, false, "Name of the setting, as in `--forward-prefetch` with underscores."},
    Column{"value", kText, false, "Its value as JSON."},
};
constexpr std::array kWarning{
    Column{"text", kText, false, "One sentence for the user."},
};
constexpr std::array kInput{
    Column{"role", kText, false, "`snapshot`, `trace`, `about`, `config` or `source`."},
    Column{"path", kText, false, "The file's name as it was given."},
    Column{"bytes", kInteger, false, "Its size in bytes."},
    Column{"digest", kText, false, "`xxh3:` and 16 hexadecimal digits of its bytes."},
};
constexpr std::array kUnit{
    Column{"name", kText, false, "Module path; empty for the root, joined by `, ` for a list of modules."},
};
constexpr std::array kParameter{
    Column{"unit", kInteger, false, "The `unit` it belongs to."},
    Column{"name", kText, false, "Fully qualified, as in `named_parameters()`."},
    Column{"shape", kText, false, "JSON array of its sizes before sharding."},
    Column{"dtype", kText, false, "Element type, as in `torch.<dtype>`."},
};
constexpr std::array kStream{
    Column{"stream", kInteger, false, "The number by which other tables name the stream; 0 is the compute stream."},
    Column{"name", kText, false, "`compute`, `all-gather`, …"},
    Column{"handle", kInteger, false, "Raw handle or the profiler's stream number; 0 where there is none."},
    Column{"priority", kInteger, false, "CUDA's priority: −1 is higher than 0."},
};
constexpr std::array kHostOp{
    Column{"kind", kText, false, "`runtime` (a CUDA call), `cpu_op`, `annotation` or `work` (simulated host work)."},
    Column{"thread", kInteger, false, "0 is the main thread, 1 autograd's, then in order of appearance."},
    Column{"label", kInteger, true, "Its name in `label`."},
    Column{"ts", kInteger, false, "Start in ns."},
    Column{"dur", kInteger, false, "Length in ns."},
    Column{"correlation", kInteger, true, "Equal to that of the device op that the call put on a stream."},
};
constexpr std::array kDeviceOp{
    Column{"kind", kText, false, "`kernel`, `copy`, `memset` or `collective`."},
    Column{"stream", kInteger, true, "The stream it ran on."},
    Column{"label", kInteger, true, "Its name in `label`."},
    Column{"issue", kInteger, false, "When the host made the call, in ns; equals `ts` where that is unknown."},
    Column{"ts", kInteger, false, "Start in ns."},
    Column{"dur", kInteger, false, "Length in ns."},
    Column{"bytes", kInteger, false, "Bytes of a copy or a collective."},
    Column{"correlation", kInteger, true, "Equal to that of the host op that issued it."},
    Column{"unit", kInteger, true, "The FSDP unit it belongs to, where known."},
    Column{"kernel_class", kText, true,
           "Of kernels: `gemm`, `gemm_single_wave`, `gemm_streaming`, `attention`, `memory_bound`, `gather_copy` or "
           "`memset`."},
    Column{"collective", kText, true,
           "Of collectives: `all_gather`, `reduce_scatter`, `all_reduce`, `all_to_all`, `broadcast`, `reduce` or "
           "`send_recv`."},
    Column{"transport", kText, true,
           "Of collectives: `nccl`, `nccl-registered`, `symmetric`, `copy-engine`, `low-contention` or "
           "`pull-reduce`."},
    Column{"communicator", kInteger, true, "The communicator of a collective."},
    Column{"grid_x", kInteger, true, "Kernel grid, where known."},
    Column{"grid_y", kInteger, true, "As `grid_x`."},
    Column{"grid_z", kInteger, true, "As `grid_x`."},
    Column{"block_x", kInteger, true, "Kernel block, where known."},
    Column{"block_y", kInteger, true, "As `block_x`."},
    Column{"block_z", kInteger, true, "As `block_x`."},
};
constexpr std::array kRank{
    Column{"rank", kInteger, false, "Its number in the world."},
    Column{"clock_offset", kInteger, false, "Added to its times, in ns, beyond what its trace says of their origin."},
    Column{"clock_error", kInteger, false,
           "That is wrong by no more, in ns: no collective ends on one rank before it begins on another."},
};
constexpr std::array kRankFold{
    Column{"rank", kInteger, false, "A rank without rows in `rank_op`."},
    Column{"alike", kInteger, false, "The rank whose rows are also its."},
    Column{"communicators", kText, false,
           "Its own numbers for the communicators of those rows, in the order in which they first come: `4,7`."},
};
constexpr std::array kOfRank{
    Column{"rank", kInteger, false, "The rank it ran on."},
    Column{"step", kInteger, false, "Step of the trace, by its issue; −1: of none that is complete."},
    Column{"phase", kInteger, true, "`forward`, …, by its issue: its name in `label`."},
    Column{"sequence", kInteger, true,
           "Of a collective: its place among its communicator's of that step. With step and communicator it names one "
           "collective on all ranks."},
};
constexpr auto kRankOp = [] {
  std::array<Column, kOfRank.size() + kDeviceOp.size()> columns{};
  std::copy(kDeviceOp.begin(), kDeviceOp.end(), std::copy(kOfRank.begin(), kOfRank.end(), columns.begin()));
  return columns;
}();
constexpr std::array kEvent{
    Column{"kind", kText, false, "`record`, `wait` (of a stream) or `host_wait`."},
    Column{"event", kInteger, true, "One recording of an event; a wait names the recording that it waits for."},
    Column{"stream", kInteger, true, "The stream that records or waits; NULL for the host."},
    Column{"ts", kInteger, false, "Host time of the call in ns."},
};
constexpr std::array kBlock{
    Column{"address", kInteger, false, "Device address."},
    Column{"requested", kInteger, false, "Bytes that were asked for."},
    Column{"size", kInteger, true, "Bytes that `allocated_bytes` counts; NULL where not known."},
    Column{"stream", kInteger, true, "The stream whose memory it is."},
    Column{"pool", kInteger, true, "The memory pool; 0 is the default one."},
    Column{"category", kText, false, "What it is for: `parameters`, `gather_buffers`, `activations`, …"},
    Column{"unit", kInteger, true, "The FSDP unit it belongs to, where known."},
    Column{"parameter", kInteger, true, "The parameter it belongs to, where known."},
    Column{"label", kInteger, true, "What allocated it, in `label`."},
    Column{"step", kInteger, false, "The step of its allocation; −1 before the first."},
    Column{"op", kInteger, true,
           "PyTorch's operator that allocated it, in `label`; of a recording without stacks `near` a kernel."},
    Column{"module", kInteger, true,
           "The module in whose forward or backward it was allocated, in `label`; the root's is empty."},
    Column{"stack", kInteger, true, "The `stack` that allocated it, where recorded."},
};
constexpr std::array kAllocatorEvent{
    Column{"action", kText, false,
           "`alloc`, `free_requested`, `free_completed`, `segment_alloc`, `segment_free`, `segment_map`, "
           "`segment_unmap`, `snapshot`, `oom` or `unknown`, as in PyTorch's memory snapshot."},
    Column{"address", kInteger, false, "Address of the block or segment; free bytes of the device for `oom`."},
    Column{"size", kInteger, false, "Bytes: the request of a block, the size of a segment or of its pages."},
    Column{"stream", kInteger, true, "The stream whose memory it is."},
    Column{"ts", kInteger, false, "Time in ns."},
    Column{"block", kInteger, true, "The `block` of `alloc` and `free_*`, where its allocation was seen."},
    Column{"stack", kInteger, true, "The `stack` that called the allocator, where recorded."},
};
constexpr std::array kFrame{
    Column{"file", kText, false, "The Python file, or what is known of a C++ function's."},
    Column{"line", kInteger, false, "The line that ran; 0 where unknown."},
    Column{"function", kText, false, "The Python function, or the C++ one."},
};
constexpr std::array kStack{
    Column{"frame", kInteger, false, "The innermost `frame`."},
    Column{"caller", kInteger, true, "The `stack` that called it, of a lower id; NULL for the outermost frame."},
    Column{
        "user_frame", kInteger, true,
        "The innermost `frame` of the stack that is not of PyTorch or of Python's library; NULL without one. Derived."},
};
constexpr std::array kSegment{
    Column{"device", kInteger, false, "Ordinal of the GPU."},
    Column{"address", kInteger, false, "Start address."},
    Column{"total_size", kInteger, false, "Bytes reserved from the driver."},
    Column{"allocated_size", kInteger, false, "Bytes in live blocks."},
    Column{"active_size", kInteger, false, "Bytes in blocks that are live or wait for an event."},
    Column{"requested_size", kInteger, false, "Bytes that were asked for."},
    Column{"stream", kInteger, false, "Raw handle of the stream."},
    Column{"small_pool", kInteger, false, "1 for the pool of requests up to 1 MiB."},
    Column{"pool_id_0", kInteger, false, "First half of PyTorch's pool id."},
    Column{"pool_id_1", kInteger, false, "Second half of PyTorch's pool id."},
    Column{"is_expandable", kInteger, false, "1 for an expandable segment."},
};
constexpr std::array kSegmentBlock{
    Column{"segment", kInteger, false, "The `segment` it lies in."},
    Column{"address", kInteger, false, "Start address."},
    Column{"size", kInteger, false, "Bytes it takes."},
    Column{"requested_size", kInteger, false, "Bytes that were asked for; stale for inactive blocks."},
    Column{"state", kText, false, "`live`, `pending_free` (waits for an event) or `inactive`."},
    Column{"stack", kInteger, true, "The `stack` that allocated it, where recorded."},
};
constexpr std::array kStep{
    Column{"recording", kText, false, "`run`, or of an import `snapshot` or `trace`: two recordings, two clocks."},
    Column{"step", kInteger, false, "Number of the step within its recording."},
    Column{"ts", kInteger, false, "Start in host time, ns."},
    Column{"dur", kInteger, false, "Length in host time, ns."},
    Column{"device_end", kInteger, true, "End of the last op on the compute stream, ns."},
    Column{"peak_requested", kInteger, false, "Peak of `requested_bytes` since the step's start."},
    Column{"peak_allocated", kInteger, false, "Peak of `allocated_bytes` since the step's start."},
    Column{"peak_active", kInteger, false, "Peak of `active_bytes` since the step's start."},
    Column{"peak_reserved", kInteger, false, "Peak of `reserved_bytes` since the step's start."},
    Column{"reserved_current", kInteger, false, "`reserved_bytes` at the step's end."},
    Column{"num_alloc_retries", kInteger, false,
           "`num_alloc_retries` at the step's end, counted since the process began."},
};
constexpr std::array kPhase{
    Column{"step", kInteger, false, "The step it is part of."},
    Column{"recording", kText, false, "The recording of that step."},
    Column{"name", kText, false, "`forward`, `backward`, `optimizer`, `zero_grad`."},
    Column{"ts", kInteger, false, "Start in ns."},
    Column{"dur", kInteger, false, "Length in ns."},
};
constexpr std::array kAnnotation{
    Column{"label", kInteger, true, "Its name in `label`."},
    Column{"ts", kInteger, false, "Start in ns."},
    Column{"dur", kInteger, false, "Length in ns."},
};
constexpr std::array kImportStat{
    Column{"name", kText, false, "What was counted."},
    Column{"severity", kText, false, "`info`, `data_loss` or `error`."},
    Column{"count", kInteger, false, "How often."},
    Column{"text", kText, false, "One sentence for the user."},
};
constexpr std::array kResult{
    Column{"key", kText, false, "Key of `plan --json`."},
    Column{"value", kText, false, "Its value as JSON."},
};
constexpr std::array kMeasured{
    Column{"series", kText, false,
           "`step_ms`, `host_issue_ms`, `cycle` where steps differ, `late_rank` where one is known, or `late_itself` "
           "where its trace shows that other ranks' work is not why."},
    Column{"value", kReal, false,
           "Milliseconds, one row a step; of `cycle`, after how many steps sizes repeat; the late rank; 1."},
};
constexpr std::array kLabel{
    Column{"text", kText, false, "The name; other tables hold this row's `id`."},
};
constexpr std::array kWorkload{
    Column{"json", kText, false, "The workload that the run came from (docs/workload.md)."},
};
// core/explain/explanation.hpp, MemoryParts.
constexpr std::array kMemoryParts{
    Column{"requested", kInteger, false, "What the program asked for, in live blocks."},
    Column{"rounding", kInteger, false, "Inside live blocks, beyond the request."},
    Column{"pending_free", kInteger, false, "Blocks that the program freed and that wait for a stream's event."},
    Column{"hard_fragmentation", kInteger, false, "Free, in segments (expandable: pages) that hold blocks in use."},
    Column{"soft_fragmentation", kInteger, false,
           "Whole free segments (pages) of the stream that asked for memory last."},
    Column{"stream_fragmentation", kInteger, false, "Whole free segments (pages) of other streams."},
    Column{"private_pools", kInteger, false, "Free in private pools."},
};
constexpr std::array kRun{
    Column{"kind", kText, false, "`imported`, `planned` or `executed`."},
    Column{"name", kText, false, "Name of the run."},
    Column{"foreshard_version", kText, false, "The program that wrote it."},
    Column{"torch", kText, false, "Version of PyTorch, as in `2.11.0+cu130`."},
    Column{"nccl", kText, false, "Version of NCCL."},
    Column{"gpu", kText, false, "Name of the GPU."},
    Column{"sm_count", kInteger, false, "Its number of SMs; 0 where unknown."},
    Column{"machine", kText, false, "Name of the machine profile."},
    Column{"valid", kInteger, false, "0 when the model was used outside its calibration, or a fallback was."},
    Column{"measured", kInteger, false, "1 when the capturing process measured itself (see `measured`)."},
    Column{"complete", kInteger, false, "1, written last: a store without it was cut short and is refused."},
};

constexpr std::array kTables{
    Table{"label", "Interned names.", kLabel},
    Table{"settings", "The settings of the run.", kSettings},
    Table{"warning", "What the user should know about the run.", kWarning},
    Table{"input", "Files that the run was made from.", kInput},
    Table{"unit", "FSDP units, one a `fully_shard` call; 0 is the root.", kUnit},
    Table{"parameter", "Parameters, counted over all units in unit order.", kParameter},
    Table{"stream", "CUDA streams.", kStream},
    Table{"host_op", "Spans of host time.", kHostOp},
    Table{"device_op", "Kernels, copies, memsets and collectives, in order of issue.", kDeviceOp},
    Table{"rank",
          "Ranks of an import of several ranks' traces, or of a plan whose ranks differ; the first is that of all "
          "other tables.",
          kRank},
    Table{
        "rank_op",
        "Device ops of every `rank`, on the first one's clock (whose ops are those of `device_op` again). Streams are "
        "numbered as in that rank's trace, 0 is its compute stream; communicators over all ranks. Ranks in `rank_fold` "
        "have none of their own: those of every rank are `SELECT rank AS of_rank, * FROM rank_op UNION ALL SELECT "
        "rank_fold.rank, rank_op.* FROM rank_fold JOIN rank_op ON rank_op.rank = rank_fold.alike`, but for the numbers "
        "of "
        "communicators.",
        kRankOp},
    Table{"rank_fold",
          "Ranks of a plan that do the same at the same times as another: the rows of `rank_op` stand once, for "
          "`alike`.",
          kRankFold, 5},
    Table{"event", "Event records and waits, in host order.", kEvent},
    Table{"frame", "Frames of call stacks, as PyTorch's memory snapshot has them.", kFrame},
    Table{"stack", "Call stacks, a tree: each is a frame and the stack that called it.", kStack},
    Table{"block", "Allocations from malloc to free, in order of malloc.", kBlock},
    Table{"allocator_event", "Every change of the caching allocator's state, in order.", kAllocatorEvent},
    Table{"segment", "The final state: segments by address.", kSegment},
    Table{"segment_block", "The final state: the segments' blocks by address.", kSegmentBlock},
    Table{"step", "Training steps.", kStep},
    Table{"phase", "Phases of the steps.", kPhase},
    Table{"annotation", "`record_function` ranges on the clock of the memory recording.", kAnnotation},
    Table{"import_stat", "Odd but usable input, counted.", kImportStat},
    Table{"measured", "What the capturing process measured with no profiler running.", kMeasured},
    Table{"result", "The answers of `plan`; of an import what its GPU has (`device_memory_bytes`).", kResult},
    Table{"workload", "At most one row: where the run came from.", kWorkload},
    Table{
        "memory_parts",
        "Every reserved byte after each allocator event (docs/explain.md); `id` is that of `allocator_event`. Derived "
        "from the other tables; empty where they contradict each other.",
        kMemoryParts},
    Table{"run", "One row: the run itself.", kRun},
};

// The views of overlap walk a stream in time.
constexpr std::array kIndexes{
    Index{"device_op_by_stream", "device_op", "stream, ts"},
};

}  // namespace

std::span<const Table> tables() {
  return kTables;
}

std::span<const Index> indexes() {
  return kIndexes;
}

}  // namespace foreshard::traces

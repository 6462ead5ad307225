// The seam: what a back end must do so that one host program can run on it.
//
// Who: core/step drives a Device; sim/ implements it in virtual time, gpu/ on CUDA and NCCL, and
// core/device/scripted_device.hpp with answers a test writes down. tests/contract/device_contract.hpp
// is the suite each of them passes.
//
// Thread safety: one thread at a time. Determinism: on a virtual device the same calls give the same
// answers and the same timings.
//
// The host program never branches on where it runs. It learns from the device only what PyTorch's
// host learns: whether an event has completed, whether memory could be had, what time it is.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/quantity.hpp"
#include "core/device/computation.hpp"

namespace foreshard {

/// Which mathematical family a kernel belongs to. Decides what it shares with a collective that runs
/// beside it (sim/machine) and how it is drawn. Values are stored; never renumber.
enum class KernelClass : std::uint8_t {
  gemm = 0,              ///< matrix product whose grid fills the GPU more than once
  gemm_single_wave = 1,  ///< matrix product of at most one wave of tiles
  gemm_streaming = 2,    ///< matrix product bound by reading its weights (few rows)
  attention = 3,         ///< fused attention, forward or backward
  memory_bound = 4,      ///< elementwise, reduction, norm, optimizer, gather copy-out, chunk-cat
  gather_copy = 5,       ///< FSDP's cast and copy-in kernels of an all-gather
  memset = 6,            ///< cudaMemsetAsync
};

/// How a kernel of Kind::bytes walks its tensors, which decides the share of the memory rate it reaches. Named after
/// PyTorch's kernels. `bytes` counts each tensor once: what is broadcast or read twice is not counted twice.
/// KernelMath::m is the number of elements computed (0: unknown); it bounds the kernels that are slow by element.
enum class MemoryAccess : std::uint8_t {
  contiguous = 0,  ///< vectorized_elementwise_kernel: same shapes, no gaps (add, mul, silu, gelu, casts, fills)
  strided = 1,  ///< elementwise_kernel: views, transposes, broadcasts (rotary, .contiguous()); casts to a wider dtype
  concatenate = 2,  ///< CatArrayBatchedCopy
  row = 3,  ///< one row after another: norms forward and their input gradients, softmax, mean and sum over the last dim
  column = 4,        ///< sums over the rows: gradients of norms' weights and of biases
  gather = 5,        ///< embedding forward, index_select
  scatter = 6,       ///< embedding backward with its sort, index_add
  multi_tensor = 7,  ///< foreach and fused optimizer kernels
  mixed = 8,         ///< elementwise over operands of different dtypes, cast element by element (float32 × bfloat16)
};

/// What a kernel computes, for a device that has to price it (or to run one of the same shape).
struct KernelMath {
  enum class Kind : std::uint8_t {
    bytes = 0,              ///< moves KernelWork::bytes and computes little; m: elements, see MemoryAccess
    gemm = 1,               ///< `batch` products of m × k by k × n
    attention_forward = 2,  ///< fused scaled-dot-product attention over `batch` (sequences × query heads) …
    /// … of m queries and n keys, head dimension k. Its helpers (row sums of dO·O, conversion of dQ, reduction of
    /// grouped dK and dV) are kernels of their own.
    attention_backward = 3,
  };
  Kind kind = Kind::bytes;
  DType dtype = DType::bfloat16;  ///< of the operands
  bool causal = false;            ///< attention
  std::uint32_t batch = 1;
  std::uint64_t m = 0;
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  MemoryAccess access = MemoryAccess::contiguous;  ///< bytes
  bool operator==(const KernelMath&) const = default;
};

/// One kernel or memset. `work` is what it takes alone on an otherwise idle GPU; where it is 0 the device prices
/// the kernel from `math` and `bytes`, and of the three GEMM classes takes the one that the shape falls into.
struct KernelWork {
  KernelClass kernel_class = KernelClass::memory_bound;
  Nanoseconds work;
  Bytes bytes = 0;           ///< read and written in device memory
  double ring_slowdown = 0;  ///< factor while an NCCL ring runs, measured for this kernel; 0: the class's own
  LabelId label;
  KernelMath math = {};
};

enum class CopyKind : std::uint8_t { host_to_device = 0, device_to_host = 1, device_to_device = 2, peer_to_peer = 3 };

/// One cudaMemcpyAsync. `work` 0 lets the device price it from `bytes`.
struct CopyWork {
  CopyKind kind = CopyKind::host_to_device;
  Bytes bytes = 0;
  Nanoseconds work;
  LabelId label;
};

enum class CollectiveKind : std::uint8_t { all_gather = 0, reduce_scatter = 1, all_reduce = 2 };

/// How a collective moves its bytes. Names are those of `--all-gather`; values are stored.
enum class Transport : std::uint8_t {
  nccl = 0,             ///< plain NCCL ring or tree, SM kernels
  nccl_registered = 1,  ///< NCCL with registered user buffers
  symmetric = 2,        ///< NCCL symmetric-window kernels
  copy_engine = 3,      ///< NCCL zero-CTA all-gather in symmetric memory: copy engines, no SM
  low_contention = 4,   ///< copy-engine gather and few-CTA reduction in symmetric memory, after pytorch#130583
};

/// Our own collectives serve groups of one node, of at most so many ranks; NCCL takes larger ones.
inline constexpr std::uint32_t kMostLowContentionRanks = 8;

/// What a reduce-scatter or an all-reduce does with the ranks' values: FSDP2's is the average (ncclAvg), unless the
/// values were divided before and the transport knows only sums.
enum class Reduction : std::uint8_t { average = 0, sum = 1 };

/// One collective. `bytes` is the whole buffer: for an all-gather the output, for a reduce-scatter
/// the input, for an all-reduce the tensor (nccl-tests' "size").
struct CollectiveWork {
  CollectiveKind kind = CollectiveKind::all_gather;
  Transport transport = Transport::nccl;
  Bytes bytes = 0;
  LabelId label;
  DType dtype = DType::float32;  ///< of the elements
  /// Reduce-scatter by low_contention alone: dtype of the result where it is not the elements'; sums are made in it.
  std::optional<DType> output_dtype = std::nullopt;
  Address input = 0;   ///< 0: the device only prices it
  Address output = 0;  ///< an all-gather's input may be this rank's part of it
  Reduction reduction = Reduction::average;
};

struct StreamOptions {
  std::string name;  ///< "compute", "all-gather", …; unique on the device
  int priority = 0;  ///< CUDA's: −1 is higher than 0
};

struct CommunicatorOptions {
  std::string name;  ///< "world", "shard", "replicate", …
  std::uint32_t ranks = 1;
  std::uint32_t ranks_per_node = 1;  ///< how many of them share this rank's node
  /// The global ranks of the group, in its order; empty: a device of one process knows no others.
  std::vector<std::uint32_t> members = {};
};

/// When an op ran, on the device's clock. `issue` ≤ `start` ≤ `end`.
struct OpTiming {
  Nanoseconds issue;  ///< the host's call
  Nanoseconds start;
  Nanoseconds end;
};

/// What the caching allocator needs of a device's events; a subset of Device so that a replay can
/// answer from a recording (core/allocator/replay.hpp).
class StreamEvents {
 public:
  virtual ~StreamEvents() = default;
  /// cudaEventRecord: completes when all work put on `stream` before this call has.
  virtual EventId record_event(StreamId stream) = 0;
  /// cudaEventQuery at the host's present time. Never blocks, takes no host time.
  [[nodiscard]] virtual bool event_complete(EventId event) = 0;
  /// cudaEventSynchronize: moves the host's time to the event's completion if that is later.
  virtual void synchronize_event(EventId event) = 0;
};

class Device : public StreamEvents {
 public:
  /// A new stream. Stream 0 (the default stream, named "compute", priority 0) exists from the start.
  virtual StreamId create_stream(const StreamOptions& options) = 0;
  /// A new communicator. Kernels of one communicator run strictly in the order of their issue, even
  /// on different streams (NCCL; fsdp2 semantics 5.4).
  virtual CommunicatorId create_communicator(const CommunicatorOptions& options) = 0;

  /// Puts work at the end of a stream and returns at once, unless the stream's launch queue is full:
  /// then the host waits for room. Ids count from 0 in issue order over all streams.
  virtual OpId launch(StreamId stream, const KernelWork& work) = 0;
  /// launch() of a kernel whose operands are known: `addresses` by operand, 0 where one is absent. A device that only
  /// prices runs it as launch().
  virtual OpId compute(StreamId stream, const KernelWork& work, const Computation& computation,
                       std::span<const Address> addresses) {
    (void)computation;
    (void)addresses;
    return launch(stream, work);
  }
  virtual OpId copy(StreamId stream, const CopyWork& work) = 0;
  virtual OpId collective(StreamId stream, CommunicatorId communicator, const CollectiveWork& work) = 0;

  /// cudaStreamWaitEvent: work put on `stream` from now on starts after `event` has completed.
  virtual void stream_wait_event(StreamId stream, EventId event) = 0;
  /// cudaStreamSynchronize: moves the host's time to the completion of all work on `stream`.
  virtual void synchronize_stream(StreamId stream) = 0;
  /// cudaDeviceSynchronize.
  virtual void synchronize() = 0;

  /// The host computes for `length` before its next call. Virtual time passes in sim; nothing happens
  /// on a real GPU, whose host takes the time it takes.
  virtual void host_work(Nanoseconds length) = 0;
  [[nodiscard]] virtual Nanoseconds host_now() = 0;

  /// Timings of all ops so far, by OpId. Requires synchronize() since the last op.
  [[nodiscard]] virtual std::span<const OpTiming> timings() const = 0;
};

}  // namespace foreshard

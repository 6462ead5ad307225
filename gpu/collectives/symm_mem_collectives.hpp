// Our own collectives over symmetric memory: an all-gather by copy engines alone, and a reduce-scatter whose bytes
// travel by copy engine while a few CTAs add them up.
//
// Who: communicator.hpp. The group's ranks are of one host. Every call is collective: the same sizes in the same order
// on all ranks. Thread safety: one thread at a time, except abandon(). Protocol and measurements:
// docs/gpu_collectives.md.
//
// Small ones of both kinds are one kernel that needs no barrier (exchange_kernel.hpp), where NVLink joins the group.
// The calls of a kind run one after the other on the device; the caller sees to that (communicator.hpp does).
//
// All-gather: the output lies in symmetric memory, the input anywhere on the device. Each rank says that its output may
// be overwritten, pushes its slice to the others as they say so, says that it is through, and waits for the same word
// from all. When the stream goes on, the output is whole and the input is not read any more.
//
// Reduce-scatter: one kernel of few CTAs (reduce_kernel.hpp) adds. An input in symmetric memory is read where it lies
// (direct): small ones by a kernel on the caller's stream, large ones by a resident worker that keeps its SMs between
// reduce-scatters. Any other input is staged: its slices are pushed by copy engines in chunks into the receivers'
// slots, which the kernel gives back; no memory of the caller is shared.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <span>
#include <vector>

#include "core/base/error.hpp"
#include "core/device/collective.hpp"
#include "gpu/collectives/exchange_kernel.hpp"
#include "gpu/collectives/reduce_kernel.hpp"
#include "gpu/collectives/symmetric_heap.hpp"
#include "gpu/collectives/transfer_plan.hpp"
#include "gpu/collectives/transfer_runner.hpp"

namespace foreshard::gpu {

/// How the own collectives work; the defaults are what was fastest on H200 (docs/gpu_collectives.md). The same on all
/// ranks.
struct SymmMemTuning {
  Bytes exchange_gather = kExchangeGather;    ///< whole buffers up to this go by exchange_kernel.hpp
  Bytes exchange_scatter = kExchangeScatter;  ///< the same of a reduce-scatter
  std::uint32_t exchange_ctas = kExchangeCtas;
  ScatterTuning scatter;
  ReduceLaunch reduce{0, 2};          ///< no CTAs here: as many as PullReduceCtas says
  Bytes brief_up_to = 16 * kMiB;      ///< whole symmetric inputs up to this are reduced on the caller's stream
  Bytes direct_up_to = 64 * kGiB;     ///< larger symmetric inputs are staged like any other
  std::uint64_t linger_ns = 100'000;  ///< how long the resident worker keeps its SMs for the next reduce-scatter
};

/// One reduce-scatter. Shapes: input [ranks × elements], output [elements].
struct ScatterCall {
  const void* input = nullptr;
  void* output = nullptr;
  std::uint64_t elements = 0;  ///< of one rank's result
  DType input_type = DType::bfloat16;
  DType output_type = DType::bfloat16;
  float scale = 1.0F;  ///< multiplies the fp32 sum
};

enum class ScatterPath : std::uint8_t { staged = 0, direct = 1, exchanged = 2 };

class SymmMemCollectives {
 public:
  /// `members`: the group's local ranks in group order, `rank` this process's place among them. Collective over all
  /// ranks of the host (heap.allocate), also those of other groups. Errors: no memory, too many ranks.
  [[nodiscard]] static Result<std::unique_ptr<SymmMemCollectives>> create(SymmetricHeap& heap,
                                                                          std::vector<std::uint32_t> members,
                                                                          std::uint32_t rank,
                                                                          const SymmMemTuning& tuning);
  ~SymmMemCollectives();
  SymmMemCollectives(const SymmMemCollectives&) = delete;
  SymmMemCollectives& operator=(const SymmMemCollectives&) = delete;

  /// Gathers `slice` bytes a rank; in place when `input` is this rank's slice of `output`. Errors: the output (for
  /// pulls the input too) is not in symmetric memory, the legacy default stream, CUDA's.
  [[nodiscard]] Result<void> all_gather(const void* input, void* output, Bytes slice, cudaStream_t stream);
  /// Gathers each of `tensors` (CollectiveWork::tensors), the first at the lowest address; in place, or this rank's
  /// parts from one behind the other at `input`. Errors: the tensors do not lie in one allocation of symmetric memory,
  /// the legacy default stream, CUDA's.
  [[nodiscard]] Result<void> all_gather(const void* input, std::span<const ShardedTensor> tensors, cudaStream_t stream);
  /// The first one that is staged allocates the staging area, on all ranks. Errors: no memory for it, CUDA's.
  [[nodiscard]] Result<void> reduce_scatter(const ScatterCall& call, cudaStream_t stream);
  /// The input is `tensors` (CollectiveWork::tensors), in the peers' memory too: call.input is not looked at. Errors:
  /// one does not lie in symmetric memory, parts of more than 2 GiB, CUDA's.
  [[nodiscard]] Result<void> reduce_scatter(const ScatterCall& call, std::span<const ShardedTensor> tensors,
                                            cudaStream_t stream);
  /// Whether buffers of `bytes`, all ranks' parts together, go by exchange_kernel.hpp.
  [[nodiscard]] bool exchanges(CollectiveKind kind, Bytes bytes) const;
  /// Which way a reduce-scatter of this call goes.
  [[nodiscard]] ScatterPath scatter_path(const ScatterCall& call) const;

  /// Reduce-scatters so far that the resident kernel does, numbered from 0; and when it did one, as far as it has: its
  /// `number` is another where that is too long ago, or has not begun.
  [[nodiscard]] std::uint32_t resident_items() const { return items_; }
  [[nodiscard]] ItemTime item_time(std::uint32_t number) const;

  /// Ends every wait on this rank, on streams and in kernels, because a peer is lost. Results are undefined from then
  /// on. May be called from any thread.
  void abandon();
  /// Device memory held: flags, inboxes, and staging once a reduce-scatter was staged.
  [[nodiscard]] Bytes fixed_bytes() const { return fixed_bytes_; }

 private:
  struct HostShared;
  SymmMemCollectives(SymmetricHeap& heap, std::vector<std::uint32_t> members, std::uint32_t rank,
                     const SymmMemTuning& tuning);
  [[nodiscard]] Result<void> set_up();
  [[nodiscard]] Result<void> make_inboxes();
  /// Whether all members say that NVLink joins them to all others: what a line of an exchange relies on. Collective, as
  /// create() is.
  [[nodiscard]] Result<void> find_links();
  /// Staging, when it is first needed: collective over the host, as the call that needs it is.
  [[nodiscard]] Result<void> make_staging();
  [[nodiscard]] std::uint32_t ranks() const { return static_cast<std::uint32_t>(members_.size()); }
  /// The copies of one buffer by rank of the group; only this rank's where it is not symmetric.
  [[nodiscard]] std::array<Address, kMaxPeers> copies_of(const void* memory) const;
  [[nodiscard]] ReduceItem item_of(const ScatterCall& call) const;
  /// Of half an inbox of the kind.
  [[nodiscard]] Bytes half_inbox(CollectiveKind kind) const;
  /// Of the kind's next call.
  [[nodiscard]] ExchangeItem exchange_of(const void* input, void* output, Bytes slice, CollectiveKind kind);
  void add_staged(ReduceItem& item, Bytes slice) const;
  void add_direct(ReduceItem& item, const ScatterCall& call, Bytes slice);
  void enter_direct(ReduceItem& item);
  void add_tensors(ReduceItem& item, std::span<const ShardedTensor> tensors);
  /// By a kernel on the caller's stream where the whole input is small, else by the resident worker.
  [[nodiscard]] Result<void> reduce_direct(ReduceItem& item, Bytes slice, cudaStream_t stream);
  [[nodiscard]] ReduceLaunch launch_of(const ReduceItem& item) const;
  [[nodiscard]] Result<void> immediate(ReduceItem& item, Bytes slice, cudaStream_t stream);
  [[nodiscard]] Result<void> start_persistent(ReduceItem& item, cudaStream_t stream);
  [[nodiscard]] Result<void> push(const ScatterCall& call, Bytes slice, cudaStream_t stream);
  [[nodiscard]] Result<void> post(const ReduceItem& item);
  [[nodiscard]] std::uint32_t* flag(std::uint32_t on, Flag which, std::uint32_t writer) const;

  SymmetricHeap& heap_;
  std::vector<std::uint32_t> members_;
  std::uint32_t rank_;
  SymmMemTuning tuning_;
  void* control_ = nullptr;  ///< flags, then the reduction's counters
  void* staging_ = nullptr;
  bool joined_ = false;                       ///< find_links()
  std::array<Address, kMaxPeers> inboxes_{};  ///< by rank: two halves of all-gathers, then two of reduce-scatters
  std::uint64_t exchanged_[2] = {};           ///< calls, by kind as in inboxes_
  Bytes fixed_bytes_ = 0;
  HostShared* host_ = nullptr;  ///< pinned
  TransferAddresses addresses_;
  ReduceLinks links_;  ///< of resident reductions
  ReduceLinks immediate_links_;
  std::unique_ptr<TransferRunner> gather_runner_;  ///< one each: a lane that waits must not hold up the other's
  std::unique_ptr<TransferRunner> scatter_runner_;
  cudaStream_t worker_ = nullptr;  ///< reductions run here
  cudaStream_t rescue_ = nullptr;  ///< abandon()'s
  cudaEvent_t started_ = nullptr;
  std::uint32_t gathers_ = 0;
  std::uint32_t chunks_ = 0;
  std::uint32_t rounds_ = 0;
  std::uint32_t items_ = 0;
  std::uint32_t directs_ = 0;
  std::uint32_t immediates_ = 0;
};

}  // namespace foreshard::gpu

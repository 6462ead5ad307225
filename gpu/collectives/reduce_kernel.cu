#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "gpu/collectives/bulk_copy.cuh"
#include "gpu/collectives/driver.hpp"
#include "gpu/collectives/elements.cuh"
#include "gpu/collectives/reduce_kernel.hpp"

namespace foreshard::gpu {
namespace {

constexpr int kWarps = 16;
constexpr int kThreads = 32 * kWarps;
constexpr std::uint32_t kRingBytes = 12 * 1024;  // of one warp
constexpr std::uint32_t kStages = 3;
constexpr std::uint32_t kItemWords = sizeof(ReduceItem) / 4;
static_assert(sizeof(ReduceItem) % 4 == 0 && kItemWords <= kThreads);
static_assert(kReduceTile == kWarps * (kRingBytes / kStages));

struct Shared {
  alignas(128) unsigned char ring[kWarps][kRingBytes];
  ReduceItem item;
  std::uint64_t full[kWarps][kStages];
  std::uint32_t read[kMaxSlots];  ///< warps through with a slot's chunk
  std::uint32_t go;
};

static_assert(sizeof(Shared) <= 227 * 1024, "what a CTA may have on sm_90");

__device__ void store_system(std::uint32_t* word, std::uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
__device__ std::uint64_t load_gpu(const std::uint64_t* word) {
  std::uint64_t value;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
__device__ void store_gpu(std::uint64_t* word, std::uint64_t value) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}
__device__ std::uint64_t nanoseconds() {
  std::uint64_t value;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(value));
  return value;
}
/// Counters wrap: compared as CU_STREAM_WAIT_VALUE_GEQ does.
__device__ bool reached(std::uint32_t value, std::uint32_t wanted) {
  return std::int32_t(value - wanted) >= 0;
}

__device__ void load_shared(uint4& to, std::uint32_t from) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to.x), "=r"(to.y), "=r"(to.z), "=r"(to.w)
               : "r"(from)
               : "memory");
}
__device__ void load_shared(uint2& to, std::uint32_t from) {
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(to.x), "=r"(to.y) : "r"(from) : "memory");
}
/// Waits until `passed()`; false when the host has given the group up.
template <class Passed>
__device__ bool wait_until(const ReduceLinks& links, Passed passed) {
  for (std::uint32_t spins = 1; !passed(); ++spins)
    if (spins % 4096 == 0 && load_system(links.abandon) != 0) return false;
  return true;
}

template <class T>
__device__ std::uint32_t pack(float low, float high) {
  std::uint32_t word = 0;
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    word = *reinterpret_cast<const std::uint32_t*>(&both);
  } else {
    const __half2 both = __floats2half2_rn(low, high);
    word = *reinterpret_cast<const std::uint32_t*>(&both);
  }
  return word;
}

/// Stores to global memory, said so: a generic store would hold up the loads from shared memory behind it.
__device__ void store_words(void* to, std::uint32_t x, std::uint32_t y, std::uint32_t z, std::uint32_t w) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}
__device__ void store_words(void* to, std::uint32_t x, std::uint32_t y) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(x), "r"(y) : "memory");
}

/// Writes 4 or 8 results, in as few stores as there can be.
template <class T, int kCount>
__device__ void store(T* to, const float (&x)[kCount]) {
  if constexpr (std::is_same_v<T, float>) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4)
      store_words(to + i, __float_as_uint(x[i]), __float_as_uint(x[i + 1]), __float_as_uint(x[i + 2]),
                  __float_as_uint(x[i + 3]));
  } else if constexpr (kCount == 8) {
    store_words(to, pack<T>(x[0], x[1]), pack<T>(x[2], x[3]), pack<T>(x[4], x[5]), pack<T>(x[6], x[7]));
  } else {
    store_words(to, pack<T>(x[0], x[1]), pack<T>(x[2], x[3]));
  }
}

/// Bytes of one source's tile, so that kStages of all sources fit a warp's ring; kRanks as in foreshard_reduce.
template <int kRanks>
inline constexpr std::uint32_t kTile = kRingBytes / kStages / (kRanks != 0 ? kRanks : kMaxPeers);

/// Where rank p's data of chunk k starts.
template <class In>
__device__ const In* data(const ReduceItem& item, std::uint32_t p, std::uint32_t k) {
  if (item.tensors != 0) return static_cast<const In*>(item.tensor[k][p]);
  const char* base = static_cast<const char*>(item.source[p]);
  if (item.direct != 0 || p == item.rank)
    base += item.chunks.begin(k);
  else
    base += ((item.first_chunk + k) % item.slots) * item.slot_bytes;
  return reinterpret_cast<const In*>(base);
}
/// The index of a chunk's first element in the slice.
template <class In>
__device__ std::uint64_t first_of(const ReduceItem& item, std::uint32_t k) {
  return item.chunks.begin(k) / sizeof(In);
}
__device__ std::uint32_t bytes_of(const ReduceItem& item, std::uint32_t k) {
  return item.tensors != 0 ? item.tensor_bytes[k] : static_cast<std::uint32_t>(item.chunks.bytes(k));
}

/// Whether rank p's data of chunk k may be read.
__device__ bool ready(const ReduceItem& item, std::uint32_t k, std::uint32_t p) {
  if (p >= item.ranks || p == item.rank) return true;
  const std::uint32_t number = item.first_chunk + (item.direct != 0 ? 0 : k);  // an input is whole at once
  return reached(load_system(item.ready[p] + number % item.slots), number + 1);
}
/// One thread a peer: waits until that peer's data of a chunk may be read.
__device__ bool wait_for(const ReduceItem& item, const ReduceLinks& links, std::uint32_t k, std::uint32_t p) {
  return wait_until(links, [&] { return ready(item, k, p); });
}

/// Whether this CTA is the last of the grid to come here, after all of the CTA's reads and writes. One thread a CTA.
__device__ bool last_cta(std::uint32_t* counter) {
  __threadfence();
  if (atomicAdd(counter, 1U) != gridDim.x - 1) return false;
  atomicExch(counter, 0U);
  __threadfence_system();
  return true;
}

/// Tells the peers that chunk k has been read.
__device__ void answer(const ReduceItem& item, std::uint32_t k) {
  const std::uint32_t number = item.first_chunk + k;
  for (std::uint32_t p = 0; p < item.ranks; ++p)
    if (p != item.rank) store_system(item.answer[p] + number % item.slots, number + 1);
}

/// One thread of each CTA, when all of the CTA has read chunk k. A direct item's chunks end with the item.
__device__ void finish_chunk(const ReduceItem& item, const ReduceLinks& links, std::uint32_t k) {
  if (item.direct == 0 && last_cta(links.counters + (item.first_chunk + k) % item.slots)) answer(item, k);
}

/// One thread of each CTA, at the end of its item. The item is complete when its result is written and, where peers
/// read this rank's input, they have done so.
__device__ void finish_item(const ReduceItem& item, const ReduceLinks& links) {
  if (!last_cta(links.finished)) return;
  if (item.direct != 0) {
    answer(item, 0);
    const std::uint32_t value = item.first_chunk + 1;
    for (std::uint32_t p = 0; p < item.ranks; ++p)
      if (p != item.rank && !wait_until(links, [&] { return reached(load_system(item.consumed[p]), value); })) return;
  }
  if (links.times != nullptr) links.times[item.number % kItemTimes].end = nanoseconds();
  store_system(links.complete, item.number + 1);
  store_system(links.complete_host, item.number + 1);
}

/// A warp's way through a slice, chunk by chunk: every tile whose number is the warp's own among all warps of the grid.
template <std::uint32_t kBytes>
class Walk {
 public:
  __device__ explicit Walk(const ReduceItem& item) : item_(item) {}
  /// The next chunk that has a tile of this warp; false at the end.
  __device__ bool next() {
    while (next_ < item_.chunks.count) {
      chunk_ = next_++;
      at_ = worker() * kBytes;
      end_ = bytes_of(item_, chunk_);
      if (at_ < end_) return true;
    }
    chunk_ = next_;
    at_ = end_ = 0;
    return false;
  }
  /// The chunk's next tile; false at its end.
  __device__ bool step() {
    at_ += kWarps * gridDim.x * kBytes;
    return at_ < end_;
  }
  __device__ std::uint32_t chunk() const { return chunk_; }  ///< at the end the number of chunks
  __device__ std::uint32_t at() const { return at_; }        ///< byte offset of the tile in the chunk
  __device__ std::uint32_t end() const { return end_; }      ///< of the chunk
  __device__ static std::uint32_t worker() { return threadIdx.x / 32 * gridDim.x + blockIdx.x; }

 private:
  const ReduceItem& item_;
  std::uint32_t next_ = 0;
  std::uint32_t chunk_ = 0;
  std::uint32_t at_ = 0;
  std::uint32_t end_ = 0;
};

/// Where a warp's ring of stages stands; goes on from item to item.
struct Turn {
  std::uint32_t stage = 0;
  std::uint32_t parity = 0;
};

template <class In, class Out>
__device__ void add_element(const ReduceItem& item, std::uint32_t k, std::uint32_t index) {
  float sum = upcasts(__ldcg(data<In>(item, 0, k) + index));
  for (std::uint32_t p = 1; p < item.ranks; ++p) sum += upcasts(__ldcg(data<In>(item, p, k) + index));
  static_cast<Out*>(item.output)[first_of<In>(item, k) + index] = narrow<Out>(sum * item.scale);
}

/// One warp's work on an item: it brings tiles of all ranks' inputs into its ring by bulk copies, as far ahead as there
/// are stages, and adds. No warp waits for another but at the end of the item.
template <class In, class Out, int kRanks>
class Adder {
 public:
  static constexpr std::uint32_t kBytes = kTile<kRanks>;
  static constexpr std::uint32_t kStage = kBytes * (kRanks != 0 ? kRanks : kMaxPeers);
  /// A lane's results at a time are one store of 16 bytes, or of 8.
  using Vector = std::conditional_t<(sizeof(Out) > sizeof(In)), uint2, uint4>;
  static constexpr int kCount = sizeof(Vector) / sizeof(In);
  static constexpr std::uint32_t kStep = 32 * sizeof(Vector);
  static constexpr int kVectors = kBytes / kStep;
  static constexpr int kKnown = kRanks != 0 ? kRanks : 1;
  static_assert(kBytes % kStep == 0 && kStages * kStage <= kRingBytes);

  __device__ Adder(Shared& shared, const ReduceLinks& links, Turn& turn)
      : shared_(shared),
        item_(shared.item),
        links_(links),
        turn_(turn),
        ranks_(kRanks != 0 ? kRanks : shared.item.ranks),
        lane_(threadIdx.x % 32),
        ring_(shared_address(shared.ring[threadIdx.x / 32])),
        full_(shared_address(shared.full[threadIdx.x / 32])),
        scale_(shared.item.scale),
        ahead_(shared.item),
        walk_(shared.item) {}

  /// False when the group was given up: then what was on its way has come, and nothing more is begun.
  __device__ bool run() {
    enter_chunk();
    refill();
    while (in_flight_ != 0) {
      // Bulk copies end, whatever becomes of the group.
      while (!barrier_passed(full_ + turn_.stage * sizeof(std::uint64_t), turn_.parity)) {
      }
      const std::uint32_t stage = ring_ + turn_.stage * kStage;
      const std::uint32_t left = walk_.end() - walk_.at();
      if (kRanks != 0 && left >= kBytes) {
        Vector loaded[kVectors][kKnown];
#pragma unroll
        for (int v = 0; v < kVectors; ++v)
#pragma unroll
          for (int p = 0; p < kKnown; ++p)
            load_shared(loaded[v][p], stage + lane_ * sizeof(Vector) + p * kBytes + v * kStep);
        // What is read may be overwritten: the next copy is on its way while this lane adds.
        give_back();
        if (ahead_.at() < open_end_) issue();
        Out* out = result(walk_.at() / sizeof(In)) + lane_ * kCount;
#pragma unroll
        for (int v = 0; v < kVectors; ++v) add(loaded[v], 0, out + v * 32 * kCount);
      } else {
        add_some(stage, min(left, kBytes));
        give_back();
      }
      if (!walk_.step()) enter_chunk();
      if (in_flight_ < kStages) refill();
    }
    const bool done = __syncthreads_and(!lost_) != 0;
    if (done && threadIdx.x == 0) finish_item(item_, links_);
    return done;
  }

 private:
  /// The warp has read the oldest stage.
  __device__ void give_back() {
    __syncwarp();
    --in_flight_;
    if (++turn_.stage == kStages) {
      turn_.stage = 0;
      turn_.parity ^= 1;
    }
  }
  /// Goes to the next chunk to add.
  __device__ void enter_chunk() {
    walk_.next();
    pass(walk_.chunk());
    out_ = static_cast<Out*>(item_.output) + first_of<In>(item_, walk_.chunk());
  }
  __device__ Out* result(std::uint32_t index) const {
    return out_ + index;
  }

  /// Fills the free stages with what may be read already; waits only when there is nothing to add.
  __device__ void refill() {
    while (in_flight_ < kStages && !lost_) {
      if (ahead_.at() >= ahead_.end() && !ahead_.next()) return;
      if (open_end_ == 0 && !open()) return;
      issue();
    }
  }
  /// Whether all ranks' data of the chunk ahead may be read. Lane p asks for rank p.
  __device__ bool open() {
    if (in_flight_ != 0) {
      if (__all_sync(~0U, ready(item_, ahead_.chunk(), lane_)) == 0) return false;
    } else if (__all_sync(~0U, wait_for(item_, links_, ahead_.chunk(), lane_)) == 0) {
      lost_ = true;
      return false;
    }
    // What other engines wrote and the lanes' acquires saw, the bulk copies of whichever lane issues them see too.
    __syncwarp();
    asm volatile("fence.proxy.async;" ::: "memory");
    if constexpr (kRanks != 0) {
#pragma unroll
      for (int p = 0; p < kRanks; ++p) from_[p] = reinterpret_cast<const char*>(data<In>(item_, p, ahead_.chunk()));
    } else {
      from_[0] = reinterpret_cast<const char*>(data<In>(item_, lane_ < ranks_ ? lane_ : 0, ahead_.chunk()));
    }
    open_end_ = ahead_.end();
    return true;
  }
  /// Fetches the tile ahead into a free stage.
  __device__ void issue() {
    std::uint32_t number = turn_.stage + in_flight_;
    if (number >= kStages) number -= kStages;
    const std::uint32_t stage = ring_ + number * kStage;
    const std::uint32_t full = full_ + number * sizeof(std::uint64_t);
    const std::uint32_t load = min(kBytes, open_end_ - ahead_.at()) & ~15U;
    if constexpr (kRanks != 0) {
      if (lane_ == 0) {
        barrier_expect(full, load * kRanks);
        if (load != 0) {
#pragma unroll
          for (int p = 0; p < kRanks; ++p) bulk_load(stage + p * kBytes, from_[p] + ahead_.at(), load, full);
        }
      }
    } else {
      if (lane_ == 0) barrier_expect(full, load * ranks_);
      __syncwarp();
      if (lane_ < ranks_ && load != 0) bulk_load(stage + lane_ * kBytes, from_[0] + ahead_.at(), load, full);
    }
    ++in_flight_;
    if (!ahead_.step()) open_end_ = 0;
  }

  /// Adds this lane's vectors, one of each source, and writes the result.
  __device__ void add(const Vector (&vectors)[kKnown], std::uint32_t from, Out* out) {
    float sum[kCount];
    unpack<In>(vectors[0], sum);
    const auto more = [&](const Vector& vector) {
      float x[kCount];
      unpack<In>(vector, x);
#pragma unroll
      for (int i = 0; i < kCount; ++i) sum[i] += x[i];
    };
#pragma unroll
    for (int p = 1; p < kKnown; ++p) more(vectors[p]);
    // Without these braces nvcc 13.0 drops the loop below where this one is discarded.
    if constexpr (kRanks == 0) {
      for (std::uint32_t p = 1; p < ranks_; ++p) {
        Vector vector;
        load_shared(vector, from + p * kBytes);
        more(vector);
      }
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum[i] *= scale_;
    store<Out, kCount>(out, sum);
  }
  /// A tile that is not whole, or of any number of ranks.
  __device__ void add_some(std::uint32_t stage, std::uint32_t bytes) {
    const std::uint32_t whole = bytes & ~15U;
#pragma unroll 1
    for (std::uint32_t at = lane_ * sizeof(Vector); at < whole; at += kStep) {
      Vector vectors[kKnown];
#pragma unroll
      for (int p = 0; p < kKnown; ++p) load_shared(vectors[p], stage + at + p * kBytes);
      add(vectors, stage + at, result((walk_.at() + at) / sizeof(In)));
    }
    // A chunk's end that is no whole vector.
    const std::uint32_t rest = (walk_.at() + whole) / sizeof(In) + lane_;
    if (rest < (walk_.at() + bytes) / sizeof(In)) add_element<In, Out>(item_, walk_.chunk(), rest);
  }

  /// This warp is through with the chunks below `until`. The last warp of the CTA says so for all.
  __device__ void pass(std::uint32_t until) {
    for (; passed_ < until && !lost_; ++passed_) {
      // Where the warp has no tile it waits for the data all the same: a slot's count is of one chunk at a time.
      if (ahead_.worker() * kBytes >= bytes_of(item_, passed_) &&
          __all_sync(~0U, wait_for(item_, links_, passed_, lane_)) == 0) {
        lost_ = true;
        return;
      }
      __syncwarp();
      if (lane_ != 0 || item_.direct != 0) continue;  // a direct item's chunks end with it
      __threadfence_block();
      std::uint32_t* const count = &shared_.read[(item_.first_chunk + passed_) % item_.slots];
      if (atomicAdd(count, 1U) != kWarps - 1) continue;
      atomicExch(count, 0U);
      __threadfence_block();
      finish_chunk(item_, links_, passed_);
    }
  }

  Shared& shared_;
  const ReduceItem& item_;
  const ReduceLinks& links_;
  Turn& turn_;
  std::uint32_t ranks_;
  std::uint32_t lane_;
  std::uint32_t ring_;
  std::uint32_t full_;
  float scale_;
  Walk<kBytes> ahead_;             ///< what is fetched
  Walk<kBytes> walk_;              ///< what is added
  const char* from_[kKnown] = {};  ///< the chunk ahead of rank p; for any number of ranks lane p has its own
  Out* out_ = nullptr;             ///< of the chunk that is added
  std::uint32_t open_end_ = 0;     ///< end of the chunk ahead when it may be read, else 0
  std::uint32_t in_flight_ = 0;
  std::uint32_t passed_ = 0;
  bool lost_ = false;
};

/// Any alignment: element by element, without stages.
template <class In, class Out>
__device__ bool add_unaligned(Shared& shared, const ReduceLinks& links) {
  const ReduceItem& item = shared.item;
  for (std::uint32_t k = 0; k < item.chunks.count; ++k) {
    if (__syncthreads_and(wait_for(item, links, k, threadIdx.x)) == 0) return false;
    const std::uint32_t length = bytes_of(item, k) / sizeof(In);
    for (std::uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < length; i += gridDim.x * kThreads)
      add_element<In, Out>(item, k, i);
    __syncthreads();
    if (threadIdx.x == 0) finish_chunk(item, links, k);
  }
  if (threadIdx.x == 0) finish_item(item, links);
  return true;
}

/// CTA 0 decides for all, so that they agree: the caller's stream reaches the next item before the linger time is over.
/// The host's memory, a microsecond away, is asked once, at the end: giving a group up sets `started` like every flag.
__device__ bool decide(const ReduceItem& item, const ReduceLinks& links) {
  const std::uint32_t next = item.number + 1;
  const std::uint64_t deadline = nanoseconds() + links.linger_ns;
  while (!reached(load_system(links.started), next + 1))
    if (nanoseconds() >= deadline) return false;
  return load_system(links.abandon) == 0;
}

/// Whether this launch works on the next item too, which is then in `shared`: not where its dtypes are others.
__device__ bool take_next(Shared& shared, const ReduceLinks& links) {
  const std::uint64_t next = std::uint64_t{shared.item.number} + 1;
  const DType input_type = shared.item.input_type;
  const DType output_type = shared.item.output_type;
  if (threadIdx.x == 0) {
    if (blockIdx.x == 0) {
      const bool go = decide(shared.item, links);
      store_gpu(links.decision, (next << 1) | (go ? 1 : 0));
      shared.go = go ? 1 : 0;
    } else {
      std::uint64_t decision = 0;
      const bool there = wait_until(links, [&] {
        decision = load_gpu(links.decision);
        return (decision >> 1) >= next;
      });
      shared.go = there && ((decision >> 1) > next || (decision & 1) != 0) ? 1 : 0;
    }
  }
  __syncthreads();
  if (shared.go == 0) return false;
  const volatile std::uint32_t* from = reinterpret_cast<const volatile std::uint32_t*>(&links.ring[next % kItemRing]);
  if (threadIdx.x < kItemWords) reinterpret_cast<std::uint32_t*>(&shared.item)[threadIdx.x] = from[threadIdx.x];
  __syncthreads();
  return shared.item.input_type == input_type && shared.item.output_type == output_type;
}

/// kRanks: the number of ranks where it is known when compiled, else 0.
template <class In, class Out, int kRanks>
__global__ void __launch_bounds__(kThreads, 1)
    foreshard_reduce(const __grid_constant__ ReduceItem first, const __grid_constant__ ReduceLinks links) {
  extern __shared__ unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  // A launch before this one has lingered and done it. No CTA of this launch can see its own item complete before it
  // has worked on it, so all of them decide alike.
  if (reached(load_system(links.complete), first.number + 1)) return;
  if (threadIdx.x < kItemWords)
    reinterpret_cast<std::uint32_t*>(&shared.item)[threadIdx.x] =
        reinterpret_cast<const std::uint32_t*>(&first)[threadIdx.x];
  if (threadIdx.x == 0) {
    for (auto& warp : shared.full)
      for (std::uint64_t& barrier : warp) barrier_init(&barrier, 1);
    for (std::uint32_t& count : shared.read) count = 0;
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  Turn turn;
  do {
    const ReduceItem& item = shared.item;
    if (item.direct != 0 && blockIdx.x == 0 && threadIdx.x < item.ranks && threadIdx.x != item.rank)
      store_system(item.enter[threadIdx.x], item.first_chunk + 1);
    if (links.times != nullptr && blockIdx.x == 0 && threadIdx.x == 0)
      links.times[item.number % kItemTimes] = {nanoseconds(), 0, item.number + 1, first.number + 1};
    const bool done =
        item.aligned == 0 ? add_unaligned<In, Out>(shared, links) : Adder<In, Out, kRanks>(shared, links, turn).run();
    if (!__syncthreads_and(done)) return;
    if (links.linger_ns == 0) return;
  } while (take_next(shared, links));
}

using Kernel = void (*)(ReduceItem, ReduceLinks);

template <class In, class Out>
Kernel choose_ranks(std::uint32_t ranks) {
  switch (ranks) {
    case 2:
      return foreshard_reduce<In, Out, 2>;
    case 4:
      return foreshard_reduce<In, Out, 4>;
    case 8:
      return foreshard_reduce<In, Out, 8>;
    default:
      return foreshard_reduce<In, Out, 0>;
  }
}

template <class In>
Kernel choose_output(DType out, std::uint32_t ranks) {
  switch (out) {
    case DType::float32:
      return choose_ranks<In, float>(ranks);
    case DType::bfloat16:
      return choose_ranks<In, __nv_bfloat16>(ranks);
    case DType::float16:
      return choose_ranks<In, __half>(ranks);
    default:
      return nullptr;
  }
}

Kernel choose(const ReduceItem& item) {
  switch (item.input_type) {
    case DType::float32:
      return choose_output<float>(item.output_type, item.ranks);
    case DType::bfloat16:
      return choose_output<__nv_bfloat16>(item.output_type, item.ranks);
    case DType::float16:
      return choose_output<__half>(item.output_type, item.ranks);
    default:
      return nullptr;
  }
}

}  // namespace

Result<void> reduce_runs_here() {
  cudaFuncAttributes attributes{};
  return check(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(choose({}))),
               "cudaFuncGetAttributes(foreshard_reduce)");
}

Result<void> launch_reduce(const ReduceItem& item, const ReduceLinks& links, const ReduceLaunch& launch,
                           cudaStream_t stream) {
  const Kernel kernel = choose(item);
  if (kernel == nullptr) return fail(ErrorKind::mismatch, "a reduce-scatter sums float32, bfloat16 and float16 only");
  FORESHARD_TRY(check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                           cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared)),
                      "cudaFuncSetAttribute(foreshard_reduce)"));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {launch.cluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = launch.ctas;
  config.blockDim = kThreads;
  config.dynamicSmemBytes = sizeof(Shared);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = launch.cluster > 1 ? 1 : 0;
  return check(cudaLaunchKernelEx(&config, kernel, item, links), "cudaLaunchKernelEx(foreshard_reduce)");
}

}  // namespace foreshard::gpu

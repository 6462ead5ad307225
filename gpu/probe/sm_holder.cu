// The CTAs that stream are built as foreshard_reduce's are (gpu/collectives/reduce_kernel.cu): each warp brings tiles
// into a ring of its own by bulk copies, as far ahead as there is room, and writes every tile of the last source.
#include <algorithm>

#include "gpu/collectives/bulk_copy.cuh"
#include "gpu/cuda/device_failure.hpp"
#include "gpu/probe/sm_holder.hpp"

namespace foreshard::gpu {

/// By all CTAs that streamed so far.
struct Moved {
  unsigned long long bytes;
  unsigned long long nanoseconds;  ///< of the first CTA of each hold()
};

namespace {

constexpr std::uint64_t kMaxNanoseconds = 10'000'000'000;
/// As foreshard_reduce: kernels of few registers and little shared memory can run on the same SM.
constexpr int kWarps = 16;
constexpr int kThreads = 32 * kWarps;
constexpr std::uint32_t kStages = 3;
constexpr std::uint32_t kTile = 4096;
constexpr std::uint64_t kTiles = SmHolder::kSourceBytes / kTile;
/// Tiles between two looks at whether SMs are still held.
constexpr std::uint64_t kLook = 16;

struct Shared {
  alignas(128) unsigned char ring[kWarps][kStages][kTile];
  std::uint64_t full[kWarps][kStages];
};

/// More than half of an SM's 228 KiB (compute capability 9.0), so that two of these never share one and no GEMM
/// fits in beside one.
constexpr int kShared = 200 * 1024;
static_assert(sizeof(Shared) <= kShared);

struct Sources {
  const unsigned char* at[SmHolder::kMaxSources];
  std::uint32_t count;
};

__device__ std::uint64_t nanoseconds() {
  std::uint64_t value = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(value));
  return value;
}

__device__ bool still_held(const volatile std::uint32_t* released, std::uint64_t begin) {
  return *released == 0 && nanoseconds() - begin < kMaxNanoseconds;
}

__global__ void __launch_bounds__(kThreads) hold_sms(const volatile std::uint32_t* released) {
  const std::uint64_t begin = nanoseconds();
  do {
    __nanosleep(1000);
  } while (still_held(released, begin));
}

/// Tiles of one warp, by number: each source's in turn, from a place of the warp's own on.
class Tiles {
 public:
  __device__ Tiles(Shared& shared, const Sources& sources)
      : shared_(shared),
        sources_(sources),
        warp_(threadIdx.x / 32),
        first_(kTiles / (gridDim.x * kWarps) * (blockIdx.x * kWarps + warp_)) {}

  __device__ void load(std::uint64_t number) {
    if (threadIdx.x % 32 != 0) return;
    const std::uint32_t full = shared_address(&shared_.full[warp_][number % kStages]);
    barrier_expect(full, kTile);
    bulk_load(shared_address(tile(number)), sources_.at[number % sources_.count] + place(number), kTile, full);
  }
  __device__ void wait(std::uint64_t number) {
    const std::uint32_t full = shared_address(&shared_.full[warp_][number % kStages]);
    while (!barrier_passed(full, number / kStages % 2)) {
    }
  }
  /// Whether a result was written.
  __device__ bool write(std::uint64_t number, unsigned char* to) {
    if (number % sources_.count != sources_.count - 1) return false;
    const uint4* from = reinterpret_cast<const uint4*>(tile(number));
    for (std::uint32_t i = threadIdx.x % 32; i < kTile / sizeof(uint4); i += 32)
      reinterpret_cast<uint4*>(to + place(number))[i] = from[i];
    return true;
  }

 private:
  __device__ unsigned char* tile(std::uint64_t number) { return shared_.ring[warp_][number % kStages]; }
  __device__ std::uint64_t place(std::uint64_t number) const {
    return (first_ + number / sources_.count) % kTiles * kTile;
  }

  Shared& shared_;
  const Sources& sources_;
  std::uint32_t warp_;
  std::uint64_t first_;
};

__global__ void __launch_bounds__(kThreads, 1)
    stream_memory(const volatile std::uint32_t* released, const __grid_constant__ Sources sources, unsigned char* to,
                  Moved* moved) {
  extern __shared__ unsigned char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const std::uint64_t begin = nanoseconds();
  if (threadIdx.x == 0) {
    for (auto& warp : shared.full)
      for (std::uint64_t& barrier : warp) barrier_init(&barrier, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  Tiles tiles(shared, sources);
  std::uint64_t loaded = 0;
  std::uint64_t written = 0;
  for (; loaded < kStages; ++loaded) tiles.load(loaded);
  bool held = true;
  // What was begun is waited for: a copy must not come to shared memory that is another CTA's by then.
  for (std::uint64_t number = 0; number < loaded; ++number) {
    tiles.wait(number);
    if (tiles.write(number, to)) ++written;
    __syncwarp();
    if (number % kLook == 0)
      held = held && __any_sync(0xffffffffU, threadIdx.x % 32 == 0 && still_held(released, begin));
    if (held) tiles.load(loaded++);
  }
  if (threadIdx.x % 32 == 0) atomicAdd(&moved->bytes, (loaded + written) * kTile);
  if (blockIdx.x == 0 && threadIdx.x == 0) atomicAdd(&moved->nanoseconds, nanoseconds() - begin);
}

void allow_shared(const void* kernel) {
  require(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared), "cudaFuncSetAttribute");
}

}  // namespace

SmHolder::SmHolder(std::span<const Address> sources)
    : source_count_(static_cast<std::uint32_t>(std::min(sources.size(), kMaxSources))) {
  int lowest = 0;
  int highest = 0;
  require(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
  require(cudaStreamCreateWithPriority(&own_, cudaStreamNonBlocking, highest), "cudaStreamCreateWithPriority");
  require(cudaEventCreateWithFlags(&here_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  require(cudaMalloc(reinterpret_cast<void**>(&released_), kLoads * sizeof *released_), "cudaMalloc");
  require(cudaMalloc(reinterpret_cast<void**>(&moved_), sizeof *moved_), "cudaMalloc");
  require(cudaMemset(moved_, 0, sizeof *moved_), "cudaMemset");
  require(cudaMalloc(&to_, kSourceBytes), "cudaMalloc");
  std::copy_n(sources.begin(), source_count_, sources_.begin());
  if (source_count_ == 0) {
    require(cudaMalloc(&from_, kSourceBytes), "cudaMalloc");
    sources_[source_count_++] = reinterpret_cast<Address>(from_);
  }
  allow_shared(reinterpret_cast<const void*>(hold_sms));
  allow_shared(reinterpret_cast<const void*>(stream_memory));
}

SmHolder::~SmHolder() {
  static_cast<void>(cudaStreamSynchronize(own_));
  for (void* memory : {static_cast<void*>(released_), from_, to_, static_cast<void*>(moved_)})
    static_cast<void>(cudaFree(memory));
  static_cast<void>(cudaEventDestroy(here_));
  static_cast<void>(cudaStreamDestroy(own_));
}

void SmHolder::hold(cudaStream_t stream, std::uint32_t sms, Load load) {
  require(cudaMemsetAsync(released(load), 0, sizeof *released_, stream), "cudaMemsetAsync");
  require(cudaEventRecord(here_, stream), "cudaEventRecord");
  require(cudaStreamWaitEvent(own_, here_, 0), "cudaStreamWaitEvent");
  if (load == Load::none) {
    hold_sms<<<sms, kThreads, kShared, own_>>>(released(load));
  } else {
    Sources sources{};
    sources.count = source_count_;
    for (std::uint32_t i = 0; i < source_count_; ++i)
      sources.at[i] = reinterpret_cast<const unsigned char*>(sources_[i]);  // NOLINT: a device address
    stream_memory<<<sms, kThreads, kShared, own_>>>(released(load), sources, static_cast<unsigned char*>(to_), moved_);
  }
  require(cudaGetLastError(), "a kernel that holds SMs");
}

void SmHolder::release(cudaStream_t stream, Load load) {
  require(cudaMemsetAsync(released(load), 1, sizeof *released_, stream), "cudaMemsetAsync");
}

double SmHolder::bandwidth() const {
  Moved moved{};
  require(cudaMemcpy(&moved, moved_, sizeof moved, cudaMemcpyDeviceToHost), "cudaMemcpy");
  return moved.nanoseconds == 0 ? 0 : static_cast<double>(moved.bytes) / static_cast<double>(moved.nanoseconds);
}

}  // namespace foreshard::gpu

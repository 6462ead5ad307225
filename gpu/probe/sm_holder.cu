#include "gpu/cuda/device_failure.hpp"
#include "gpu/probe/sm_holder.hpp"

namespace foreshard::gpu {
namespace {

constexpr std::uint64_t kMaxNanoseconds = 10'000'000'000;
/// More than half of an SM's 228 KiB (compute capability 9.0), so that two of these never share one and no GEMM
/// fits in beside one.
constexpr int kShared = 200 * 1024;
/// As foreshard's own reduce-scatter: kernels of few registers and no shared memory can run concurrently with it.
constexpr int kThreads = 512;

__global__ void __launch_bounds__(kThreads) hold_sms(const volatile std::uint32_t* released) {
  std::uint64_t begin = 0;
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    __nanosleep(1000);
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (*released == 0 && now - begin < kMaxNanoseconds);
}

}  // namespace

SmHolder::SmHolder() {
  int lowest = 0;
  int highest = 0;
  require(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
  require(cudaStreamCreateWithPriority(&own_, cudaStreamNonBlocking, highest), "cudaStreamCreateWithPriority");
  require(cudaEventCreateWithFlags(&here_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  require(cudaMalloc(reinterpret_cast<void**>(&released_), sizeof *released_), "cudaMalloc");
  require(cudaFuncSetAttribute(hold_sms, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared), "cudaFuncSetAttribute");
}

SmHolder::~SmHolder() {
  static_cast<void>(cudaStreamSynchronize(own_));
  static_cast<void>(cudaFree(released_));
  static_cast<void>(cudaEventDestroy(here_));
  static_cast<void>(cudaStreamDestroy(own_));
}

void SmHolder::hold(cudaStream_t stream, std::uint32_t sms) {
  require(cudaMemsetAsync(released_, 0, sizeof *released_, stream), "cudaMemsetAsync");
  require(cudaEventRecord(here_, stream), "cudaEventRecord");
  require(cudaStreamWaitEvent(own_, here_, 0), "cudaStreamWaitEvent");
  hold_sms<<<sms, kThreads, kShared, own_>>>(released_);
  require(cudaGetLastError(), "hold_sms");
}

void SmHolder::release(cudaStream_t stream) {
  require(cudaMemsetAsync(released_, 1, sizeof *released_, stream), "cudaMemsetAsync");
}

}  // namespace foreshard::gpu

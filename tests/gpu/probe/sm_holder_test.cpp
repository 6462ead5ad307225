#include "gpu/probe/sm_holder.hpp"

#include <array>
#include <chrono>
#include <thread>

#include "tests/catch.hpp"
#include "tests/gpu/cuda/one_gpu.hpp"

namespace foreshard::gpu {
namespace {

TEST_CASE("SMs are held until they are released, one load behind the other, and CTAs say what they moved") {
  if (!has_gpu()) FORESHARD_SKIP("no CUDA GPU here");
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  std::array<void*, 2> memory{};
  std::array<Address, 2> sources{};
  for (std::size_t i = 0; i < memory.size(); ++i) {
    REQUIRE(cudaMalloc(&memory[i], SmHolder::kSourceBytes) == cudaSuccess);
    sources[i] = reinterpret_cast<Address>(memory[i]);
  }
  {
    SmHolder holder(sources);
    CHECK(holder.bandwidth() == 0);
    const auto begin = std::chrono::steady_clock::now();
    for (const auto load : {SmHolder::Load::none, SmHolder::Load::memory}) {
      holder.hold(stream, 12, load);
      REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      holder.release(stream, load);
    }
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
    CHECK(holder.bandwidth() > 100);  // GB/s; an H200's memory has 4,800
    CHECK(holder.bandwidth() < 5000);
  }
  for (void* one : memory) CHECK(cudaFree(one) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}

}  // namespace
}  // namespace foreshard::gpu

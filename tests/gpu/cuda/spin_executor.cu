#include "gpu/collectives/driver.hpp"
#include "tests/gpu/cuda/spin_executor.hpp"

namespace foreshard::gpu {
namespace {

__global__ void spin(long long nanoseconds) {
  unsigned long long start = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  unsigned long long now = start;
  while (static_cast<long long>(now - start) < nanoseconds) asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
}

class SpinExecutor final : public Executor {
 public:
  Result<void> run(const Kernel&, std::span<const Address>, cudaStream_t stream) override {
    return spin_for({1000}, stream);
  }
  Result<void> emulate(const KernelWork& work, cudaStream_t stream) override { return spin_for(work.work, stream); }
  Bytes fixed_bytes() const override { return 0; }
  const std::string& attention_refusal() const override { return refusal_; }

 private:
  std::string refusal_;

  static Result<void> spin_for(Nanoseconds length, cudaStream_t stream) {
    spin<<<1, 1, 0, stream>>>(length.count);
    return check(cudaGetLastError(), "spin");
  }
};

}  // namespace

std::unique_ptr<Executor> make_spin_executor() {
  return std::make_unique<SpinExecutor>();
}

}  // namespace foreshard::gpu

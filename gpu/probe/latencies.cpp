#include "gpu/probe/latencies.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/median.hpp"
#include "gpu/cuda/cuda_device.hpp"
#include "gpu/cuda/cuda_memory.hpp"
#include "gpu/cuda/device_failure.hpp"

namespace foreshard::gpu {
namespace {

constexpr int kSamples = 40;
constexpr int kCalls = 200;  // fewer than a launch queue holds (1024)
constexpr std::int64_t kSpinNs = 100'000;
constexpr Bytes kSmall = kMiB;

/// A gap below 0 is the clocks' jitter.
double typical(std::vector<double> us) {
  return std::max(0.0, median(std::move(us)));
}

KernelWork spin(std::int64_t ns) {
  return {KernelClass::memory_bound, {ns}, 0, 0, {}};
}

KernelWork small_kernel() {
  KernelWork work{KernelClass::memory_bound, {}, kSmall, 0, {}};
  work.math.m = kSmall / 4;
  return work;
}

KernelWork small_gemm() {
  KernelWork work{KernelClass::gemm, {}, 0, 0, {}};
  work.math = {KernelMath::Kind::gemm, DType::bfloat16, false, 1, 256, 256, 256, MemoryAccess::contiguous};
  return work;
}

CollectiveWork small_gather(Transport transport) {
  return {CollectiveKind::all_gather, transport, kSmall, {}};
}

/// A device with a second stream.
struct Rig {
  Rig(Executor& executor, Groups& groups, Timing timing)
      : memory(require(CudaMemory::create({.groups = &groups}))),
        device(require(CudaDevice::create(
            executor, *memory,
            {.timing = timing, .make_group = [&groups](const auto& o) { return groups.group(o); }}))),
        side(device->create_stream({"side", -1})) {}
  std::unique_ptr<CudaMemory> memory;
  std::unique_ptr<CudaDevice> device;
  StreamId side;
};

double us_between(const CudaDevice& device, OpId from, OpId to) {
  return (device.timings()[to.value].start - device.timings()[from.value].end).us();
}

/// Gaps between ops that were already queued behind a spin: `second` puts the later op of a pair.
template <class Second>
double gap(Rig& rig, const Second& second) {
  std::vector<std::pair<OpId, OpId>> pairs;
  CudaDevice& device = *rig.device;
  for (int i = 0; i < kSamples; ++i) {
    device.launch(kComputeStream, spin(kSpinNs));
    const OpId first = device.launch(kComputeStream, spin(2000));
    pairs.emplace_back(first, second(device, first));
    device.synchronize();
  }
  std::vector<double> us;
  for (const auto& [first, last] : pairs) us.push_back(us_between(device, first, last));
  return typical(us);
}

/// Microseconds of one call, `kCalls` of them from an empty queue.
template <class Call>
double cost(CudaDevice& device, const Call& call) {
  std::vector<double> us;
  for (int round = 0; round < 5; ++round) {
    device.synchronize();
    const Nanoseconds begin = device.host_now();
    for (int i = 0; i < kCalls; ++i) call();
    us.push_back((device.host_now() - begin).us() / kCalls);
  }
  device.synchronize();
  return typical(us);
}

/// CUDA events around what is put on the compute stream: CUPTI would add its own time to each kernel.
class Interval {
 public:
  explicit Interval(cudaStream_t stream) : stream_(stream) {
    for (cudaEvent_t* event : {&begin_, &end_}) require(cudaEventCreate(event), "cudaEventCreate");
  }
  ~Interval() {
    for (cudaEvent_t event : {begin_, end_}) static_cast<void>(cudaEventDestroy(event));
  }
  Interval(const Interval&) = delete;
  Interval& operator=(const Interval&) = delete;
  void begin() { require(cudaEventRecord(begin_, stream_), "cudaEventRecord"); }
  void end() { require(cudaEventRecord(end_, stream_), "cudaEventRecord"); }
  [[nodiscard]] double us() const {
    float ms = 0;
    require(cudaEventElapsedTime(&ms, begin_, end_), "cudaEventElapsedTime");
    return static_cast<double>(ms) * 1e3;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace

ProbedLatencies probe_latencies(Executor& executor, Groups& groups, std::uint32_t ranks) {
  Rig rig(executor, groups, Timing::activities);
  CudaDevice& device = *rig.device;
  const CommunicatorId world = device.create_communicator({"world", ranks, ranks});
  ProbedLatencies out;
  // Timestamps are collected once, at the end: CUPTI's flush makes the next launch wait.
  std::vector<std::pair<OpId, Nanoseconds>> waits;
  for (int i = 0; i < kSamples; ++i) {
    const OpId op = device.launch(kComputeStream, spin(20'000));
    device.synchronize_stream(kComputeStream);
    waits.emplace_back(op, device.host_now());
  }
  device.synchronize();
  std::vector<double> launch;
  std::vector<double> synchronize;
  for (const auto& [op, after] : waits) {
    const OpTiming timing = device.timings()[op.value];
    launch.push_back((timing.start - timing.issue).us());
    synchronize.push_back((after - timing.end).us());
  }
  out.launch = typical(launch);
  out.synchronize = typical(synchronize);
  out.kernel_gap = gap(rig, [](CudaDevice& d, OpId) { return d.launch(kComputeStream, spin(2000)); });
  out.copy_gap = gap(rig, [](CudaDevice& d, OpId) {
    return d.copy(kComputeStream, {CopyKind::host_to_device, 4096, {}, {}});
  });
  out.event_wait = gap(rig, [&rig](CudaDevice& d, OpId) {
    d.stream_wait_event(rig.side, d.record_event(kComputeStream));
    return d.launch(rig.side, spin(2000));
  });
  if (ranks > 1) {
    std::vector<std::pair<OpId, OpId>> pairs;
    for (int i = 0; i < kSamples; ++i) {
      device.launch(rig.side, spin(kSpinNs));
      const OpId first = device.collective(rig.side, world, small_gather(Transport::nccl));
      pairs.emplace_back(first, device.collective(kComputeStream, world, small_gather(Transport::nccl)));
      device.synchronize();
    }
    std::vector<double> us;
    for (const auto& [first, last] : pairs) us.push_back(us_between(device, first, last));
    out.communicator_gap = typical(us);
  }
  return out;
}

ProbedHost probe_host(Executor& executor, Groups& groups, std::uint32_t ranks, bool own) {
  Rig rig(executor, groups, Timing::issue);
  CudaDevice& device = *rig.device;
  const CommunicatorId world = device.create_communicator({"world", ranks, ranks});
  ProbedHost out;
  out.kernel = cost(device, [&] { device.launch(kComputeStream, small_kernel()); });
  out.gemm = cost(device, [&] { device.launch(kComputeStream, small_gemm()); });
  out.event = cost(device, [&] { static_cast<void>(device.record_event(kComputeStream)); });
  const double both = cost(device, [&] { device.stream_wait_event(kComputeStream, device.record_event(rig.side)); });
  out.wait = std::max(0.0, both - out.event);
  if (ranks < 2) return out;
  out.collective = cost(device, [&] { device.collective(rig.side, world, small_gather(Transport::nccl)); });
  if (own)
    out.symm_mem_collective =
        cost(device, [&] { device.collective(rig.side, world, small_gather(Transport::low_contention)); });
  return out;
}

double probe_gather_gap(Executor& executor, Groups& groups, std::uint32_t ranks) {
  if (ranks < 2) return 0;
  constexpr std::int64_t kGateNs = 5'000'000;  // longer than issuing all of it takes
  constexpr int kRounds = 9;
  Rig rig(executor, groups, Timing::issue);
  CudaDevice& device = *rig.device;
  const CommunicatorId world = device.create_communicator({"world", ranks, ranks});
  Interval interval(device.handle(kComputeStream));
  std::array<std::vector<double>, 2> us;
  for (int round = 0; round < kRounds; ++round)
    for (const bool queued : {true, false}) {
      device.launch(kComputeStream, spin(kGateNs));
      interval.begin();
      for (int i = 0; i < kCalls; ++i) device.launch(kComputeStream, small_kernel());
      interval.end();
      device.stream_wait_event(rig.side, device.record_event(kComputeStream));
      if (queued) device.collective(rig.side, world, small_gather(Transport::nccl));
      device.synchronize();
      us[queued ? 1 : 0].push_back(interval.us() / kCalls);
    }
  return std::max(0.0, median(us[1]) - median(us[0]));
}

}  // namespace foreshard::gpu

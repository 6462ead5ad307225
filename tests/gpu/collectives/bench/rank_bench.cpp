#include "tests/gpu/collectives/bench/rank_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "core/base/median.hpp"
#include "gpu/collectives/driver.hpp"
#include "tests/gpu/collectives/patterns.hpp"

namespace foreshard::gpu {
namespace {

/// Calls that are timed beside a load: each of these waits for a whole kernel where it finds no SM.
constexpr int kBesideLoad = 10;

template <class T>
T need(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().text().c_str());
    std::fflush(nullptr);
    std::_Exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}
void need_cuda(cudaError_t code, const char* what) {
  need(gpu::check(code, what));
}

std::uint32_t rank_in(const Bootstrap& bootstrap) {
  return bootstrap.rank();
}

}  // namespace

RankBench::RankBench(Bootstrap& bootstrap, const std::vector<Variant>& variants, std::uint32_t gpus, Bytes largest,
                     std::FILE* out)
    : bootstrap_(bootstrap), largest_(largest), out_(out) {
  need_cuda(cudaSetDevice(static_cast<int>(bootstrap.local_rank() % gpus)), "cudaSetDevice");
  heap_ = need(SymmetricHeap::create(bootstrap));
  CommunicatorSettings settings;
  for (std::uint32_t r = 0; r < bootstrap.ranks(); ++r) settings.members.push_back(r);
  settings.transports.clear();
  bool any = false;
  for (const Variant& v : variants)
    if (v.transport != Transport::low_contention) {
      settings.transports.push_back(v.transport);
      any = true;
    }
  if (any) nccl_ = need(Communicator::create(bootstrap, heap_.get(), settings));
  int low = 0;
  int high = 0;
  need_cuda(cudaDeviceGetStreamPriorityRange(&low, &high), "cudaDeviceGetStreamPriorityRange");
  // As FSDP2's.
  need_cuda(cudaStreamCreateWithPriority(&comm_stream_, cudaStreamNonBlocking, high), "cudaStreamCreate");
  need_cuda(cudaStreamCreateWithFlags(&load_stream_, cudaStreamNonBlocking), "cudaStreamCreate");
}

RankBench::~RankBench() {
  (void)cudaStreamDestroy(comm_stream_);
  (void)cudaStreamDestroy(load_stream_);
}

void RankBench::emit(const std::string& json) {
  if (bootstrap_.rank() != 0) return;
  std::printf("BENCH %s\n", json.c_str());
  std::fflush(stdout);
  if (out_ != nullptr) {
    std::fprintf(out_, "%s\n", json.c_str());
    std::fflush(out_);
  }
}

void RankBench::barrier() {
  need_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  need(bootstrap_.barrier("bench"));
}

double RankBench::of_rank_0(double value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  const auto all = need(bootstrap_.all_gather("value", bytes));
  std::memcpy(&value, all[0].data(), sizeof value);
  return value;
}

RankBench::Buffers& RankBench::buffers(Transport transport) {
  auto& held = buffers_[static_cast<std::size_t>(transport)];
  if (held) return *held;
  const auto acquire = [&](Bytes bytes) {
    return transport == Transport::low_contention ? need(heap_->allocate(bytes))
                                                  : need(nccl_->acquire(transport, bytes));
  };
  Buffers made;
  made.gather = acquire(largest_);
  made.scatter = acquire(largest_);
  made.result = acquire(largest_);
  for (void* memory : {made.gather, made.scatter, made.result})
    fill_pattern(memory, DType::bfloat16, 0, largest_ / 2, bootstrap_.rank(), {7, false}, nullptr);
  need_cuda(cudaDeviceSynchronize(), "fill");
  held = made;
  return *held;
}

void RankBench::use(const Variant& variant) {
  if (variant.transport != Transport::low_contention || used_ == variant.text) return;
  barrier();
  std::vector<std::uint32_t> members;
  for (std::uint32_t r = 0; r < bootstrap_.ranks(); ++r) members.push_back(r);
  own_ = need(SymmMemCollectives::create(*heap_, members, bootstrap_.rank(), variant.tuning));
  used_ = variant.text;
}

void RankBench::call(const Variant& variant, Bytes bytes, DType dtype, DType output_type, Reduction reduction,
                     cudaStream_t stream) {
  Buffers& b = buffers(variant.transport);
  const Bytes slice = bytes / bootstrap_.ranks();
  const bool gather = variant.kind == CollectiveKind::all_gather;
  void* input = gather ? static_cast<char*>(b.gather) + rank_in(bootstrap_) * slice : b.scatter;
  void* output = gather ? b.gather : b.result;
  if (variant.transport != Transport::low_contention) {
    CollectiveWork work;
    work.kind = variant.kind;
    work.transport = variant.transport;
    work.bytes = bytes;
    work.dtype = dtype;
    work.input = reinterpret_cast<Address>(input);
    work.output = reinterpret_cast<Address>(output);
    work.reduction = reduction;
    need(nccl_->issue(work, stream));
  } else if (gather) {
    need(own_->all_gather(input, output, slice, stream));
  } else {
    ScatterCall scatter;
    scatter.input = input;
    scatter.output = output;
    scatter.elements = slice / itemsize(dtype);
    scatter.input_type = dtype;
    scatter.output_type = output_type;
    scatter.scale = reduction == Reduction::average ? 1.0F / static_cast<float>(bootstrap_.ranks()) : 1.0F;
    need(own_->reduce_scatter(scatter, stream));
  }
}

Issue RankBench::issue(const Variant& variant, Bytes bytes) {
  return [this, &variant, bytes](cudaStream_t stream) {
    call(variant, bytes, variant.input, variant.result, Reduction::sum, stream);
  };
}

/// As in the reference runs' measurements: the median of 5 means over `iterations` calls on one stream, in
/// microseconds.
double RankBench::timed(const Issue& work, int iterations) {
  cudaEvent_t start = nullptr;
  cudaEvent_t end = nullptr;
  need_cuda(cudaEventCreate(&start), "cudaEventCreate");
  need_cuda(cudaEventCreate(&end), "cudaEventCreate");
  for (int i = 0; i < 3; ++i) work(comm_stream_);
  std::vector<double> times;
  for (int repeat = 0; repeat < 5; ++repeat) {
    barrier();
    need_cuda(cudaEventRecord(start, comm_stream_), "cudaEventRecord");
    for (int i = 0; i < iterations; ++i) work(comm_stream_);
    need_cuda(cudaEventRecord(end, comm_stream_), "cudaEventRecord");
    need_cuda(cudaStreamSynchronize(comm_stream_), "cudaStreamSynchronize");
    float ms = 0;
    need_cuda(cudaEventElapsedTime(&ms, start, end), "cudaEventElapsedTime");
    times.push_back(static_cast<double>(ms) * 1e3 / iterations);
  }
  (void)cudaEventDestroy(start);
  (void)cudaEventDestroy(end);
  return median(times);
}

void RankBench::sizes(const Variant& variant, const std::vector<Bytes>& sizes) {
  use(variant);
  for (const Bytes bytes : sizes) {
    const double us = timed(issue(variant, bytes), bytes < 64 * kMiB ? 50 : 10);
    const double ranks = bootstrap_.ranks();
    const double bus = static_cast<double>(bytes) * (ranks - 1) / ranks / us / 1e3;
    emit(fmt::format(R"({{"variant":"{}","world":{},"op":"{}","total_bytes":{},"us":{:.2f},"busbw_GBps":{:.1f}}})",
                     variant.text, bootstrap_.ranks(), name(variant.kind), bytes, us, bus));
  }
}

void RankBench::contention(const Variant& variant, Bytes bytes, const std::optional<Variant>& beside) {
  use(variant);
  if (gemm_ == nullptr) gemm_ = std::make_unique<GemmLoad>();
  if (copy_ == nullptr) copy_ = std::make_unique<StreamLoad>();
  const Issue comm = issue(variant, bytes);
  struct Load {
    const char* name;
    Issue run;
    int iterations;
  };
  std::vector<Load> compute{Load{"gemm8192", [this](cudaStream_t s) { gemm_->run(s); }, 40},
                            Load{"copy512MB", [this](cudaStream_t s) { copy_->run(s); }, 150}};
  if (beside) compute = {Load{beside->text.c_str(), issue(*beside, bytes), 30}};
  std::array<cudaEvent_t, 3> events{};
  for (cudaEvent_t& event : events) need_cuda(cudaEventCreate(&event), "cudaEventCreate");
  for (const Load& load : compute) {
    const double isolated = of_rank_0(timed(load.run, load.iterations));
    const double comm_isolated = of_rank_0(timed(comm, kBesideLoad));
    // The collective runs for longer than the compute, then the other way round; what is timed begins when the other
    // has begun.
    const auto both = [&](bool load_first, int loads_run, int comms_run) {
      cudaStream_t first = load_first ? load_stream_ : comm_stream_;
      cudaStream_t second = load_first ? comm_stream_ : load_stream_;
      const Issue& begin = load_first ? load.run : comm;
      const Issue& then = load_first ? comm : load.run;
      const int beginning = load_first ? loads_run : comms_run;
      const int following = load_first ? comms_run : loads_run;
      barrier();
      begin(first);
      need_cuda(cudaEventRecord(events[2], first), "cudaEventRecord");
      need_cuda(cudaStreamWaitEvent(second, events[2], 0), "cudaStreamWaitEvent");
      begin(first);
      need_cuda(cudaEventRecord(events[0], second), "cudaEventRecord");
      for (int i = 0; i < following; ++i) then(second);
      need_cuda(cudaEventRecord(events[1], second), "cudaEventRecord");
      // Last: thousands of short calls fill their stream's queue, where the host waits.
      for (int i = 0; i < beginning; ++i) begin(first);
      need_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      float ms = 0;
      need_cuda(cudaEventElapsedTime(&ms, events[0], events[1]), "cudaEventElapsedTime");
      return static_cast<double>(ms) * 1e3 / following;
    };
    const auto typical = [&](bool load_first, int loads_run, int comms_run) {
      (void)both(load_first, loads_run, comms_run);
      return median({both(load_first, loads_run, comms_run), both(load_first, loads_run, comms_run),
                     both(load_first, loads_run, comms_run)});
    };
    const int comms = std::max(4, static_cast<int>(isolated * load.iterations / comm_isolated * 2.5));
    const double load_under = typical(false, load.iterations, comms);
    const int loads = std::max(3 * kBesideLoad, static_cast<int>(comm_isolated * kBesideLoad / isolated * 2.5));
    const double comm_under = typical(true, loads, kBesideLoad);
    emit(fmt::format(R"({{"variant":"{}","world":{},"op":"contention","total_bytes":{},"compute":"{}","comm":"{}",)"
                     R"("compute_isolated_us":{:.1f},"compute_under_comm_us":{:.1f},"comm_isolated_us":{:.1f},)"
                     R"("comm_under_compute_us":{:.1f},"slowdown_compute":{:.4f},"slowdown_comm":{:.4f}}})",
                     variant.text, bootstrap_.ranks(), bytes, load.name, name(variant.kind), isolated, load_under,
                     comm_isolated, comm_under, load_under / isolated, comm_under / comm_isolated));
  }
  for (cudaEvent_t event : events) (void)cudaEventDestroy(event);
}

std::uint64_t RankBench::check(const Variant& variant, std::uint64_t repeats) {
  use(variant);
  constexpr std::array kTypes{DType::bfloat16, DType::float32, DType::float16};
  unsigned long long* wrong = nullptr;
  need_cuda(cudaMalloc(reinterpret_cast<void**>(&wrong), repeats * sizeof *wrong), "cudaMalloc");
  need_cuda(cudaMemset(wrong, 0, repeats * sizeof *wrong), "cudaMemset");
  std::vector<std::string> calls;
  std::mt19937_64 random(1234);
  const std::uint32_t ranks = bootstrap_.ranks();
  const std::uint32_t rank = bootstrap_.rank();
  Buffers& b = buffers(variant.transport);
  const bool own = variant.transport == Transport::low_contention;
  std::uint64_t bytes_checked = 0;
  for (std::uint64_t i = 0; i < repeats; ++i) {
    const DType dtype = kTypes[random() % kTypes.size()];
    const DType output_type = own ? kTypes[random() % kTypes.size()] : dtype;
    // Mostly odd counts up to a few hundred kilobytes, some of megabytes, some multiples of 16 bytes.
    std::uint64_t count = 1 + random() % (1ULL << (4 + random() % 16));
    if (random() % 3 == 0) count = (count + 63) / 64 * 64;
    if (random() % 25 == 0) count += random() % (largest_ / ranks / 8 - count);
    const Bytes bytes = count * itemsize(dtype) * ranks;
    const Pattern pattern{i + 1, !own};
    const Reduction reduction = own && random() % 2 == 0 ? Reduction::average : Reduction::sum;
    cudaStream_t stream = comm_stream_;
    if (variant.kind == CollectiveKind::all_gather) {
      need_cuda(cudaMemsetAsync(b.gather, 0xff, bytes, stream), "cudaMemsetAsync");
      fill_pattern(static_cast<char*>(b.gather) + rank * (bytes / ranks), dtype, 0, count, rank, pattern, stream);
      call(variant, bytes, dtype, dtype, reduction, stream);
      count_wrong_gather(b.gather, dtype, count, ranks, pattern, wrong + i, stream);
    } else {
      need_cuda(cudaMemsetAsync(b.result, 0xff, count * 4, stream), "cudaMemsetAsync");
      fill_pattern(b.scatter, dtype, 0, count * ranks, rank, pattern, stream);
      call(variant, bytes, dtype, output_type, reduction, stream);
      const float scale = reduction == Reduction::average ? 1.0F / static_cast<float>(ranks) : 1.0F;
      count_wrong_reduce(b.result, dtype, output_type, count, ranks, rank, scale, pattern, wrong + i, stream);
    }
    calls.push_back(fmt::format("{} x {} -> {}", count, name(dtype), name(output_type)));
    bytes_checked += bytes;
    if (i % 100 == 99) need_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  std::vector<unsigned long long> counts(repeats);
  need_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  need_cuda(cudaMemcpy(counts.data(), wrong, repeats * sizeof *wrong, cudaMemcpyDeviceToHost), "cudaMemcpy");
  unsigned long long found = 0;
  for (std::uint64_t i = 0; i < repeats; ++i) {
    if (counts[i] != 0 && rank == 0)
      std::printf("wrong: call %llu, %s: %llu elements\n", static_cast<unsigned long long>(i), calls[i].c_str(),
                  counts[i]);
    found += counts[i];
  }
  (void)cudaFree(wrong);
  std::uint64_t all = 0;
  for (const std::string& text : need(bootstrap_.all_gather("wrong", std::to_string(found))))
    all += std::strtoull(text.c_str(), nullptr, 10);
  emit(fmt::format(
      R"({{"variant":"{}","world":{},"op":"check","kind":"{}","repeats":{},"bytes":{},"wrong_elements":{}}})",
      variant.text, ranks, name(variant.kind), repeats, bytes_checked, all));
  return all;
}

void RankBench::paths() {
  if (nccl_ == nullptr) return;
  for (const PathReport& report : nccl_->paths()) emit(fmt::format(R"({{"op":"path","text":"{}"}})", text(report)));
  const PoolCounters& c = nccl_->counters();
  emit(fmt::format(R"({{"op":"pool","acquired":{},"reused":{},"registered":{},"bytes":{}}})", c.acquired, c.reused,
                   c.registered, c.bytes));
}

}  // namespace foreshard::gpu

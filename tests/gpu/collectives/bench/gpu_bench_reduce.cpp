// How many CTAs our own reduce-scatter needs: its kernel (gpu/collectives/reduce_kernel.hpp) with two or more sources
// on two GPUs of this host, one of them the GPU's own and the others its peer's, alone and beside 8192³ products. So
// the load that four ranks put on a GPU is measured with two. No flag is waited for and all items are known from the
// start: what ranks cost each other is gpu_bench_collectives' to say. Prints one JSON line a measurement ("BENCH {…}");
// exit code 77 without two GPUs.
//
//   gpu_bench_reduce --sources 2,4 --ctas 8,10,12 --in bfloat16 --out float32

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/base/median.hpp"
#include "gpu/collectives/reduce_kernel.hpp"
#include "tests/gpu/collectives/bench/compute_load.hpp"
#include "tests/gpu/collectives/patterns.hpp"

namespace {

using namespace foreshard;
using namespace foreshard::gpu;

constexpr Bytes kTotal = 512 * kMiB;          // of all sources' parts
constexpr std::uint32_t kItems = 40;          // one after the other, by one launch
constexpr std::uint32_t kReached = 1U << 29;  // no flag's wait is longer

void need(cudaError_t code, const char* what) {
  require(code == cudaSuccess, what);
}

struct Case {
  std::uint32_t sources = 2;
  bool local = false;
  std::uint32_t ctas = 8;
  DType input = DType::bfloat16;
  DType output = DType::bfloat16;
};

/// Words that the kernel reads and writes, in device memory.
struct Words {
  std::uint32_t counters[kMaxSlots] = {};
  std::uint32_t finished = 0;
  std::uint32_t started = kItems;
  std::uint32_t complete = 0;
  alignas(8) std::uint64_t decision = 0;
  std::uint32_t passed[kMaxPeers] = {};   ///< what peers would have said
  std::uint32_t ignored[kMaxPeers] = {};  ///< what is said to peers
};

/// One GPU: its sources, what runs there.
class Side {
 public:
  explicit Side(int gpu) : gpu_(gpu) {
    use();
    need(cudaDeviceEnablePeerAccess(1 - gpu, 0), "cudaDeviceEnablePeerAccess");
    need(cudaMalloc(&slices_, kTotal), "cudaMalloc");
    need(cudaMalloc(&result_, kTotal), "cudaMalloc");
    need(cudaMalloc(reinterpret_cast<void**>(&words_), sizeof(Words)), "cudaMalloc");
    need(cudaHostAlloc(reinterpret_cast<void**>(&ring_), kItemRing * sizeof(ReduceItem), 0), "cudaHostAlloc");
    need(cudaHostAlloc(reinterpret_cast<void**>(&host_), 2 * sizeof(std::uint32_t), 0), "cudaHostAlloc");
    std::memset(host_, 0, 2 * sizeof(std::uint32_t));
    fill_pattern(slices_, DType::bfloat16, 0, kTotal / 2, static_cast<std::uint32_t>(gpu), {7, false}, nullptr);
    int low = 0;
    int high = 0;
    need(cudaDeviceGetStreamPriorityRange(&low, &high), "cudaDeviceGetStreamPriorityRange");
    need(cudaStreamCreateWithPriority(&reductions_, cudaStreamNonBlocking, high), "cudaStreamCreate");
    need(cudaStreamCreateWithFlags(&products_, cudaStreamNonBlocking), "cudaStreamCreate");
    for (cudaEvent_t& event : events_) need(cudaEventCreate(&event), "cudaEventCreate");
    product_ = std::make_unique<GemmLoad>();
  }

  void use() const { need(cudaSetDevice(gpu_), "cudaSetDevice"); }
  void wait() const {
    use();
    need(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  /// Puts a launch that works through all items. `peer`: the other GPU's slices.
  void put_reductions(const Case& c, const void* peer) {
    use();
    Words words;
    for (std::uint32_t& flag : words.passed) flag = kReached;
    need(cudaMemcpyAsync(words_, &words, sizeof words, cudaMemcpyHostToDevice, reductions_), "cudaMemcpyAsync");
    need(cudaStreamSynchronize(reductions_), "cudaStreamSynchronize");
    for (std::uint32_t i = 0; i < kItems; ++i) ring_[i] = item(c, peer, i);
    ReduceLinks links;
    links.finished = &words_->finished;
    links.counters = words_->counters;
    links.started = &words_->started;
    links.complete = &words_->complete;
    links.decision = &words_->decision;
    links.ring = ring_;
    links.complete_host = host_;
    links.abandon = host_ + 1;
    links.linger_ns = 1000;
    need(cudaEventRecord(events_[0], reductions_), "cudaEventRecord");
    const auto launched = launch_reduce(ring_[0], links, {c.ctas, 2}, reductions_);
    require(launched.has_value(), "launch_reduce");
    need(cudaEventRecord(events_[1], reductions_), "cudaEventRecord");
  }

  /// Puts `count` products, and `more` around them that are not timed.
  void put_products(int count, int more) {
    use();
    if (more > 0) product_->run(products_);
    need(cudaEventRecord(events_[2], products_), "cudaEventRecord");
    for (int i = 0; i < count; ++i) product_->run(products_);
    need(cudaEventRecord(events_[3], products_), "cudaEventRecord");
    for (int i = 0; i < more; ++i) product_->run(products_);
  }

  [[nodiscard]] double reduction_us() const { return between(0, 1) / kItems; }
  [[nodiscard]] double product_us(int count) const { return between(2, 3) / count; }
  [[nodiscard]] const void* slices() const { return slices_; }

 private:
  [[nodiscard]] ReduceItem item(const Case& c, const void* peer, std::uint32_t number) const {
    const Bytes slice = kTotal / c.sources / 16 * 16;  // the kernel's bulk copies want it
    ReduceItem item;
    item.ranks = c.sources;
    item.input_type = c.input;
    item.output_type = c.output;
    item.output = result_;
    item.aligned = 1;
    item.number = item.first_chunk = number;
    item.direct = 1;
    item.chunks.count = 1;
    item.chunks.total = slice;
    for (std::uint32_t s = 0; s < c.sources; ++s) {
      item.source[s] = static_cast<const char*>(s == 0 ? slices_ : peer) + s * slice;
      item.enter[s] = item.answer[s] = words_->ignored + s;
      item.ready[s] = item.consumed[s] = words_->passed + s;
    }
    return item;
  }
  [[nodiscard]] double between(std::size_t begin, std::size_t end) const {
    float ms = 0;
    need(cudaEventElapsedTime(&ms, events_[begin], events_[end]), "cudaEventElapsedTime");
    return static_cast<double>(ms) * 1e3;
  }

  int gpu_;
  void* slices_ = nullptr;
  void* result_ = nullptr;
  Words* words_ = nullptr;
  ReduceItem* ring_ = nullptr;     ///< pinned
  std::uint32_t* host_ = nullptr;  ///< pinned: complete, abandon
  cudaStream_t reductions_ = nullptr;
  cudaStream_t products_ = nullptr;
  std::array<cudaEvent_t, 4> events_{};
  std::unique_ptr<GemmLoad> product_;
};

struct Concurrent {
  double reduction = 0;
  double product = 0;
  double gemm_isolated = 0;
};

/// Both GPUs at once. Times are the slower one's, in microseconds.
class Pair {
 public:
  double reduction_isolated(const Case& c) {
    return repeated([&] {
      put_reductions(c);
      return slower([](const Side& side) { return side.reduction_us(); });
    });
  }
  /// The timed products lie within the reductions, and products outlast them. Alone they run for as long in between, so
  /// that both times are those of the same clocks.
  Concurrent concurrent(const Case& c, double reduction_us) {
    constexpr double kProduct = 1600;  // about what one takes, us: so many fit beside the reductions
    const int count = std::max(5, static_cast<int>(kItems * reduction_us / kProduct * 0.7));
    const auto products = [&] {
      for (Side& side : sides_) side.put_products(count, count);
      return slower([&](const Side& side) { return side.product_us(count); });
    };
    std::vector<double> isolated;
    std::vector<double> slowed;
    Concurrent out;
    out.reduction = repeated([&] {
      isolated.push_back(products());
      put_reductions(c);
      slowed.push_back(products());
      return slower([](const Side& side) { return side.reduction_us(); });
    });
    out.product = median(slowed);
    out.gemm_isolated = median(isolated);
    return out;
  }

 private:
  void put_reductions(const Case& c) {
    for (std::size_t i = 0; i < 2; ++i) sides_[i].put_reductions(c, sides_[c.local ? i : 1 - i].slices());
  }
  template <class Time>
  double slower(const Time& time) {
    for (const Side& side : sides_) side.wait();
    return std::max(time(sides_[0]), time(sides_[1]));
  }
  /// The median of four, after one that does not count.
  template <class Run>
  double repeated(const Run& run) {
    (void)run();
    std::vector<double> times;
    for (int i = 0; i < 4; ++i) times.push_back(run());
    return median(times);
  }
  std::array<Side, 2> sides_{Side(0), Side(1)};
};

void measure(Pair& pair, const Case& c) {
  const double isolated = pair.reduction_isolated(c);
  const Concurrent concurrent = pair.concurrent(c, isolated);
  const double bus = static_cast<double>(kTotal) * (c.sources - 1) / c.sources / isolated / 1e3;
  fmt::print(
      R"(BENCH {{"op":"reduce","sources":{},"local":{},"ctas":{},"in":"{}","out":"{}","total_bytes":{},"us":{:.1f},)"
      R"("busbw_GBps":{:.1f},"us_beside_gemm8192":{:.1f},"slowdown":{:.3f},"gemm_us":{:.1f},)"
      R"("gemm_slowdown":{:.3f}}})"
      "\n",
      c.sources, c.local, c.ctas, name(c.input), name(c.output), kTotal, isolated, bus, concurrent.reduction,
      concurrent.reduction / isolated, concurrent.gemm_isolated, concurrent.product / concurrent.gemm_isolated);
  std::fflush(stdout);
}

DType dtype_of(const std::string& text) {
  for (const DType dtype : {DType::bfloat16, DType::float16})
    if (text == name(dtype)) return dtype;
  return DType::float32;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::uint32_t> sources{2, 4};
  std::vector<std::uint32_t> ctas{8, 10, 12, 16};
  std::string input = "bfloat16";
  std::string output;
  CLI::App app{"Measures the kernel of our own reduce-scatter by CTAs and sources, on two GPUs"};
  bool local = false;
  app.add_flag("--local", local, "all sources in the GPU's own memory, as after staging; the bus then counts nothing");
  app.add_option("--sources", sources, "ranks whose parts are summed")
      ->delimiter(',')
      ->check(CLI::Range(2U, kMaxPeers));
  app.add_option("--ctas", ctas, "CTAs, in pairs")->delimiter(',');
  const auto dtypes = CLI::IsMember({"float32", "bfloat16", "float16"});
  app.add_option("--in", input, "dtype of what is summed")->check(dtypes);
  app.add_option("--out", output, "dtype of the results; default: --in")->check(dtypes);
  CLI11_PARSE(app, argc, argv);
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus < 2) {
    fmt::print("skipped: two GPUs are wanted, {} here\n", gpus);
    return 77;
  }
  Pair pair;
  for (const std::uint32_t s : sources)
    for (const std::uint32_t c : ctas)
      measure(pair, {s, local, c, dtype_of(input), dtype_of(output.empty() ? input : output)});
  return 0;
}

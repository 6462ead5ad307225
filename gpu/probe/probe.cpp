#include "gpu/probe/probe.hpp"

#include <fmt/core.h>
#include <nccl.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/base/median.hpp"
#include "core/device/transport_traits.hpp"
#include "gpu/collectives/symmetric_heap.hpp"
#include "gpu/cuda/cuda_memory.hpp"
#include "gpu/cuda/device_failure.hpp"
#include "gpu/probe/kernels.hpp"
#include "gpu/probe/latencies.hpp"
#include "gpu/probe/sm_holder.hpp"
#include "gpu/probe/stopwatch.hpp"

namespace foreshard::gpu {
namespace {

constexpr Bytes kContentionBytes = 512 * kMiB;
constexpr std::array kSizes{kMiB,       4 * kMiB,    16 * kMiB,   64 * kMiB,  256 * kMiB,
                            512 * kMiB, 1024 * kMiB, 2048 * kMiB, 4096 * kMiB};
constexpr double kGiga = 1e9;
constexpr Milliseconds kTimeout{120'000};

void* pointer(Address address) {
  return reinterpret_cast<void*>(address);  // NOLINT: a device address
}

/// Some 20 ms of repetitions, as many on every rank.
int repetitions(Bytes bytes) {
  return static_cast<int>(std::clamp<Bytes>(4 * kGiB / bytes, 5, 200));
}

KernelWork gemm(DType dtype, std::uint64_t n) {
  KernelWork work{KernelClass::gemm, {}, 3 * n * n * itemsize(dtype), 0, {}};
  work.math = {KernelMath::Kind::gemm, dtype, false, 1, n, n, n, MemoryAccess::contiguous};
  return work;
}

KernelWork memory_bound(Bytes bytes) {
  KernelWork work{KernelClass::memory_bound, {}, bytes, 0, {}};
  work.math.m = bytes / 4;
  return work;
}

/// What the CTAs that hold SMs read: a part of this GPU's memory, and the same of its peers' where they can be reached.
/// Collective.
class StreamedMemory {
 public:
  explicit StreamedMemory(Bootstrap& bootstrap) {
    const std::uint32_t peers = std::min<std::uint32_t>(bootstrap.local_ranks(), SmHolder::kMaxSources);
    if (peers < 2 || peers != bootstrap.local_ranks()) return;
    auto heap = SymmetricHeap::create(bootstrap);
    if (!heap) return;
    heap_ = std::move(*heap);
    const auto own = reinterpret_cast<Address>(require(heap_->allocate(SmHolder::kSourceBytes)));
    for (std::uint32_t i = 0; i < peers; ++i)
      sources_.push_back(*heap_->translate(own, (bootstrap.local_rank() + i) % peers));
  }
  [[nodiscard]] std::span<const Address> sources() const { return sources_; }

 private:
  std::unique_ptr<SymmetricHeap> heap_;
  std::vector<Address> sources_;
};

class Prober {
 public:
  Prober(const ProbeRequest& request, Session& session, Executor& executor)
      : request_(request), session_(session), executor_(executor) {
    for (cudaStream_t* stream : {&compute_, &side_})
      require(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  ~Prober() {
    static_cast<void>(cudaDeviceSynchronize());
    for (cudaStream_t stream : {compute_, side_}) static_cast<void>(cudaStreamDestroy(stream));
  }
  Prober(const Prober&) = delete;
  Prober& operator=(const Prober&) = delete;

  void describe();
  void rates();
  void host_costs();
  void timed_by_cupti();
  void side_kernels();
  void communication();
  ProbeResult result() { return std::move(out_); }

 private:
  struct Buffers {
    Address input = 0;
    Address output = 0;
  };
  [[nodiscard]] std::uint32_t ranks() const { return session_.bootstrap().ranks(); }
  void say(std::string_view what) {
    if (request_.progress) request_.progress(what);
    session_.report(what, kTimeout);
  }
  [[nodiscard]] std::vector<double> of_ranks(double us);
  [[nodiscard]] double slowest(double us);
  [[nodiscard]] double typical(double us) { return median(of_ranks(us)); }
  [[nodiscard]] Bytes largest();
  void peer_copy(SymmetricHeap& heap);
  void collectives_of(Communicator& world, Transport transport);
  /// What elements are, and what a reduction makes of them.
  struct Elements {
    DType dtype = DType::bfloat16;
    bool upcasts = false;  ///< into float32
  };
  void contention_of(Communicator& world, CollectiveKind kind, Transport transport, const Buffers& buffers,
                     bool upcasts);
  /// Whether the transport ran as asked for; sizes after one that did not are left out.
  bool sizes_of(Communicator& world, CollectiveKind kind, Transport transport, const Buffers& buffers, Bytes most,
                const Elements& elements);
  [[nodiscard]] CollectiveWork work(CollectiveKind kind, Transport transport, Bytes bytes, const Buffers& b,
                                    const Elements& elements) const;
  [[nodiscard]] bool ran(const Communicator& world, CollectiveKind kind, Transport transport);

  const ProbeRequest& request_;
  Session& session_;
  Executor& executor_;
  Stopwatch watch_;
  cudaStream_t compute_ = nullptr;
  cudaStream_t side_ = nullptr;
  ProbeResult out_;
};

void Prober::describe() {
  cudaDeviceProp properties{};
  int device = 0;
  require(cudaGetDevice(&device), "cudaGetDevice");
  require(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  int nccl = 0;
  static_cast<void>(ncclGetVersion(&nccl));
  int driver = 0;
  require(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  std::size_t free = 0;
  std::size_t total = 0;
  require(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  out_.gpu = properties.name;
  out_.nccl = fmt::format("{}.{}.{}", nccl / 10000, nccl % 10000 / 100, nccl % 100);
  out_.driver = fmt::format("{}.{}", driver / 1000, driver % 1000 / 10);
  out_.sm_count = static_cast<std::uint32_t>(properties.multiProcessorCount);
  out_.memory_total = total;
  out_.l2 = static_cast<Bytes>(properties.l2CacheSize);
  out_.copy_engines = static_cast<std::uint32_t>(properties.asyncEngineCount);
}

void Prober::rates() {
  say("rates");
  const auto us_of = [&](int count, const KernelWork& kernel) {
    return watch_.isolated(compute_, count, [&](cudaStream_t s) { require(executor_.emulate(kernel, s)); });
  };
  out_.gemm_bf16 = 2 * 8192.0 * 8192.0 * 8192.0 / us_of(20, gemm(DType::bfloat16, 8192)) / 1e6;
  out_.gemm_fp32 = 2 * 4096.0 * 4096.0 * 4096.0 / us_of(10, gemm(DType::float32, 4096)) / 1e6;
  constexpr Bytes kCopy = kGiB;
  void* from = nullptr;
  void* to = nullptr;
  void* host = nullptr;
  constexpr Bytes kHost = 256 * kMiB;
  require(cudaMalloc(&from, kCopy), "cudaMalloc");
  require(cudaMalloc(&to, kCopy), "cudaMalloc");
  require(cudaMallocHost(&host, kHost), "cudaMallocHost");
  const double us = watch_.isolated(compute_, 10, [&](cudaStream_t s) {
    require(cudaMemcpyAsync(to, from, kCopy, cudaMemcpyDeviceToDevice, s), "cudaMemcpyAsync");
  });
  out_.hbm_copy = 2 * static_cast<double>(kCopy) / us * 1e6 / kGiga;
  const double host_us = watch_.isolated(compute_, 4, [&](cudaStream_t s) {
    require(cudaMemcpyAsync(to, host, kHost, cudaMemcpyHostToDevice, s), "cudaMemcpyAsync");
  });
  out_.pcie = static_cast<double>(kHost) / host_us * 1e6 / kGiga;
  require(cudaFree(from), "cudaFree");
  require(cudaFree(to), "cudaFree");
  require(cudaFreeHost(host), "cudaFreeHost");
}

/// FSDP2's copies run on streams of high priority: their blocks go first where both wait for SMs.
void Prober::side_kernels() {
  constexpr int kMain = 60;
  constexpr int kSide = 10;
  constexpr std::size_t kRounds = 3;
  cudaStream_t high = nullptr;
  require(cudaStreamCreateWithPriority(&high, cudaStreamNonBlocking, -1), "cudaStreamCreateWithPriority");
  const KernelWork kernel = memory_bound(256 * kMiB);
  const auto work = [&](cudaStream_t s) { require(executor_.emulate(kernel, s)); };
  const double isolated = watch_.isolated(compute_, kMain, work);
  const double copy = watch_.isolated(high, kSide, work);
  // Of many waves, as long as the copy: blocks that end make room for it.
  KernelWork gemm_work = gemm(DType::bfloat16, 4096);
  gemm_work.math.n = 14336;
  gemm_work.math.k = 512;
  const auto multiply = [&](cudaStream_t s) { require(executor_.emulate(gemm_work, s)); };
  const double gemm_isolated = watch_.isolated(compute_, kMain, multiply);
  std::array<ProbedSide, kRounds> rounds;
  for (ProbedSide& round : rounds) {
    const Stopwatch::Both both = watch_.both(compute_, kMain, work, high, kSide, work);
    const Stopwatch::Both gemms = watch_.both(compute_, kMain, multiply, high, kSide, work);
    const auto lost = [&](const Stopwatch::Both& at_once, double of_one) {
      return std::clamp((at_once.work - kMain * of_one) / at_once.other, 0.0, 1.0);
    };
    round = {both.other / (kSide * copy), lost(both, isolated), lost(gemms, gemm_isolated)};
  }
  std::sort(rounds.begin(), rounds.end(), [](const auto& a, const auto& b) { return a.side < b.side; });
  out_.side = rounds[kRounds / 2];
  require(cudaStreamDestroy(high), "cudaStreamDestroy");
}

void Prober::host_costs() {
  say("host costs");
  Groups groups(session_.bootstrap(), {Transport::nccl, Transport::low_contention});
  const bool own = groups.heap_caveat().empty();
  out_.host = probe_host(executor_, groups, ranks(), own);
  out_.latencies.gather_gap = probe_gather_gap(executor_, groups, ranks());
  const std::uint32_t rank = session_.bootstrap().rank();
  say("the host's own work");
  out_.host.step = typical(probe_host_step(executor_, groups, HostBoundStep::sections, rank, ranks()));
  out_.host.kernel_step = typical(probe_host_step(executor_, groups, HostBoundStep::kernels, rank, ranks()));
}

void Prober::timed_by_cupti() {
  say("latencies");
  Groups groups(session_.bootstrap(), {Transport::nccl, Transport::low_contention});
  const double gather_gap = out_.latencies.gather_gap;
  out_.latencies = probe_latencies(executor_, groups, ranks());
  out_.latencies.gather_gap = gather_gap;
  const std::uint32_t rank = session_.bootstrap().rank();
  const StreamedMemory streamed(session_.bootstrap());
  ProbedKernels kernels =
      probe_kernels(executor_, groups, rank, ranks(), streamed.sources(), [this](std::string_view what) { say(what); });
  require(session_.bootstrap().barrier("streamed memory"));      // no peer reads this one's any more
  if (kernels.gap > 0) out_.latencies.kernel_gap = kernels.gap;  // of real kernels: that of empty ones is shorter
  if (kernels.gap > 0) out_.latencies.long_kernel = std::max(0.0, kernels.long_gap - kernels.gap);
  out_.kernels = std::move(kernels.kernels);
  out_.streamed_bandwidth = kernels.streamed_bandwidth;
  out_.notes.insert(out_.notes.end(), kernels.notes.begin(), kernels.notes.end());
}

/// Equal on all ranks: input, output and whatever transports stage fit into what the fullest GPU has free.
Bytes Prober::largest() {
  std::size_t free = 0;
  std::size_t total = 0;
  require(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  int halvings = 0;
  while (halvings < 16 && (request_.largest >> halvings) > free / 4) ++halvings;
  return request_.largest >> static_cast<int>(slowest(halvings));
}

std::vector<double> Prober::of_ranks(double us) {
  std::vector<double> out;
  for (const std::string& one : require(session_.bootstrap().all_gather("a time", fmt::format("{:.17g}", us))))
    out.push_back(std::stod(one));
  return out;
}

double Prober::slowest(double us) {
  double most = 0;
  for (const double one : of_ranks(us)) most = std::max(most, one);
  return most;
}

void Prober::peer_copy(SymmetricHeap& heap) {
  constexpr Bytes kBytes = 256 * kMiB;
  void* memory = require(heap.allocate(2 * kBytes));
  const auto own = reinterpret_cast<Address>(memory);
  if (session_.bootstrap().local_rank() == 0) {
    const auto peer = heap.translate(own + kBytes, 1);
    const double us = watch_.isolated(side_, 8, [&](cudaStream_t s) {
      require(cudaMemcpyAsync(pointer(*peer), memory, kBytes, cudaMemcpyDefault, s), "cudaMemcpyAsync");
    });
    out_.peer_copy = static_cast<double>(kBytes) / us * 1e6 / kGiga;
  }
  require(session_.bootstrap().barrier("peer copies"));
  require(heap.release(memory));
}

CollectiveWork Prober::work(CollectiveKind kind, Transport transport, Bytes bytes, const Buffers& b,
                            const Elements& elements) const {
  CollectiveWork work{kind, transport, bytes, {}};
  work.dtype = elements.dtype;
  if (elements.upcasts) work.output_dtype = DType::float32;
  if (sums_only(transport)) work.reduction = Reduction::sum;  // as FSDP2 is told to
  work.input = b.input;
  work.output = b.output;
  const Bytes own = bytes / ranks() * session_.bootstrap().rank();
  if (kind == CollectiveKind::all_gather) work.input = b.output + own;  // in place, as FSDP2 gathers
  if (kind == CollectiveKind::all_reduce) work.input = b.output;
  return work;
}

bool Prober::ran(const Communicator& world, CollectiveKind kind, Transport transport) {
  for (const PathReport& path : world.paths())
    if (path.kind == kind && path.asked == transport) {
      if (path.ran == transport) return true;
      out_.notes.push_back(
          fmt::format("{} by {} ran as {}: {}", name(kind), name(transport), name(path.ran), path.reason));
    }
  return false;
}

void Prober::contention_of(Communicator& world, CollectiveKind kind, Transport transport, const Buffers& buffers,
                           bool upcasts) {
  struct Concurrent {
    const char* name;
    KernelClass kernel_class;
    KernelWork work;
  };
  const std::array kernels{Concurrent{"gemm8192", KernelClass::gemm, gemm(DType::bfloat16, 8192)},
                           Concurrent{"copy512MB", KernelClass::memory_bound, memory_bound(kContentionBytes)}};
  const CollectiveWork collective = work(kind, transport, kContentionBytes, buffers, {DType::bfloat16, upcasts});
  const auto communicate = [&](cudaStream_t s) { require(world.issue(collective, s)); };
  for (const Concurrent& kernel : kernels) {
    const auto compute = [&](cudaStream_t s) { require(executor_.emulate(kernel.work, s)); };
    ProbedContention row{kernel.name, kernel.kernel_class, kind, transport, kContentionBytes};
    row.upcasts = upcasts;
    constexpr int kCollectives = 8;
    require(session_.bootstrap().barrier("contention"));
    row.collective_isolated_us = slowest(watch_.isolated(side_, kCollectives, communicate));
    // The same counts on every rank, so that collectives meet; each runs some 15 ms, what runs beside it three times
    // that.
    const auto count_of = [](double us) { return static_cast<int>(std::clamp(15'000 / us, 4.0, 200.0)); };
    const int kernels_timed = count_of(slowest(watch_.isolated(compute_, 8, compute)));
    // As hot as beside the collective: GEMMs draw power, and clocks fall within some 30 ms of them, which is
    // not the collective's doing (4 x H200, 8192^3: 1360 us in the first 10 ms, 1580 later).
    row.kernel_isolated_us = slowest(watch_.isolated(compute_, 3 * kernels_timed, compute));
    const int collectives_timed = count_of(row.collective_isolated_us);
    require(session_.bootstrap().barrier("contention"));
    row.kernel_concurrent_us =
        slowest(watch_.concurrent(compute_, kernels_timed, compute, side_, 3 * collectives_timed, communicate));
    require(session_.bootstrap().barrier("contention"));
    row.collective_concurrent_us =
        slowest(watch_.concurrent(side_, collectives_timed, communicate, compute_, 3 * kernels_timed, compute));
    if (row.kernel_concurrent_us > 0 && row.collective_concurrent_us > 0)
      out_.contention.push_back(row);
    else
      out_.notes.push_back(fmt::format("{} beside {} by {}: one was through before the other", kernel.name, name(kind),
                                       name(transport)));
  }
}

bool Prober::sizes_of(Communicator& world, CollectiveKind kind, Transport transport, const Buffers& buffers, Bytes most,
                      const Elements& elements) {
  bool as_asked = true;
  for (const Bytes bytes : kSizes) {
    if (bytes > most || !as_asked) continue;
    const CollectiveWork one = work(kind, transport, bytes, buffers, elements);
    require(session_.bootstrap().barrier("a collective"));
    const double us =
        slowest(watch_.isolated(side_, repetitions(bytes), [&](cudaStream_t s) { require(world.issue(one, s)); }));
    as_asked = ran(world, kind, transport);
    if (as_asked) out_.collectives.push_back({kind, transport, bytes, us, elements.upcasts, elements.dtype});
  }
  const bool overlaps = kind <= CollectiveKind::reduce_scatter && elements.dtype == DType::bfloat16;
  if (as_asked && request_.contention && overlaps && most >= kContentionBytes)
    contention_of(world, kind, transport, buffers, elements.upcasts);
  return as_asked;
}

void Prober::collectives_of(Communicator& world, Transport transport) {
  Buffers buffers;
  const Bytes most = largest();
  buffers.input = reinterpret_cast<Address>(require(world.acquire(transport, most)));
  buffers.output = reinterpret_cast<Address>(require(world.acquire(transport, most)));
  for (const CollectiveKind kind : kEnumValues<CollectiveKind>) {
    // FSDP2 all-reduces by plain NCCL, and programs issue theirs so.
    if (kind >= CollectiveKind::all_reduce && transport != Transport::nccl) continue;
    // Ours: copy engines gather, pull-reduce reduces.
    if (transport == Transport::low_contention && kind != CollectiveKind::all_gather) continue;
    if (transport == Transport::pull_reduce && kind != CollectiveKind::reduce_scatter) continue;
    say(fmt::format("{} by {}", name(kind), name(transport)));
    const bool as_asked = sizes_of(world, kind, transport, buffers, most, {});
    if (!as_asked || !adds(kind)) continue;
    // NCCL has one dtype for both, and fails where it would run in ours' place; ours stores more where the result is
    // wider. What FSDP2 sends where the reduction is wider than the parameters is the wider one's by NCCL, else theirs.
    const bool ours = transport == Transport::pull_reduce;
    sizes_of(world, kind, transport, buffers, most, ours ? Elements{DType::bfloat16, true} : Elements{DType::float32});
  }
  require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  require(session_.bootstrap().barrier("buffers"));
  for (const Address memory : {buffers.input, buffers.output}) require(world.release(pointer(memory)));
}

void Prober::communication() {
  if (ranks() < 2) {
    out_.notes.emplace_back("one GPU: no collectives, no peer copies");
    return;
  }
  say("making communicators");
  auto heap = SymmetricHeap::create(session_.bootstrap());
  if (!heap) out_.notes.push_back("no symmetric memory: " + heap.error().what);
  CommunicatorSettings settings;
  settings.members.resize(ranks());
  std::iota(settings.members.begin(), settings.members.end(), 0U);
  settings.transports.clear();
  for (const Transport transport : kEnumValues<Transport>)
    if (heap || !outside_nccl(transport)) settings.transports.push_back(transport);
  const auto world = require(Communicator::create(session_.bootstrap(), heap ? heap->get() : nullptr, settings));
  if (heap && session_.bootstrap().local_ranks() == ranks()) peer_copy(**heap);
  for (const Transport transport : settings.transports) collectives_of(*world, transport);
  std::size_t free = 0;
  std::size_t total = 0;
  require(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  const Bytes held = world->counters().bytes;
  out_.memory_other = total - free > held ? total - free - held : 0;
}

}  // namespace

Result<ProbeResult> probe(const ProbeRequest& request, Session& session) {
  auto executor = Executor::create();
  FORESHARD_TRY(executor);
  return guarded([&]() -> Result<ProbeResult> {
    Prober prober(request, session, **executor);
    prober.describe();
    prober.rates();
    prober.side_kernels();
    prober.host_costs();
    prober.communication();
    // Last: once CUPTI has started, every launch of the process costs the host twice as much (a step of llama-tiny 10
    // instead of 5.4 ms), and small collectives are held up by it (1 MiB by NCCL 18.8 us instead of 12.8; 4 x H200).
    prober.timed_by_cupti();
    FORESHARD_TRY(session.bootstrap().barrier("probed"));
    return prober.result();
  });
}

}  // namespace foreshard::gpu

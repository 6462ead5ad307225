// On the GPUs of this host, one forked process a GPU; skipped where there are fewer than two.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <random>
#include <thread>

#include "core/device/collective_names.hpp"
#include "gpu/collectives/communicator.hpp"
#include "gpu/collectives/driver.hpp"
#include "tests/catch.hpp"
#include "tests/gpu/collectives/forked_ranks.hpp"
#include "tests/gpu/collectives/gpus.hpp"
#include "tests/gpu/collectives/patterns.hpp"

namespace foreshard::gpu {
namespace {

constexpr Bytes kBuffer = 32 * kMiB;
constexpr int kTimeout = 120;

/// A child has no Catch2: a failed demand ends it with the text on stderr and the exit code 1.
void demand(bool good, const std::string& what) {
  if (good) return;
  std::fprintf(stderr, "%s\n", what.c_str());
  std::fflush(nullptr);
  std::_Exit(1);
}
template <class T>
T got(Result<T> result, const char* what) {
  demand(result.has_value(), result ? "" : fmt::format("{}: {}", what, result.error().text()));
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// Ranks to run, at most four; 0 where there are fewer than two GPUs.
std::uint32_t ranks_here() {
  const int gpus = count_gpus();
  return gpus < 2 ? 0 : static_cast<std::uint32_t>(gpus < 4 ? gpus : 4);
}

CommunicatorSettings settings_for(const Bootstrap& bootstrap, std::vector<Transport> transports) {
  CommunicatorSettings settings;
  for (std::uint32_t r = 0; r < bootstrap.ranks(); ++r) settings.members.push_back(r);
  settings.transports = std::move(transports);
  return settings;
}

struct Rank {
  Bootstrap& bootstrap;
  std::unique_ptr<SymmetricHeap> heap;
  std::unique_ptr<Communicator> group;
  cudaStream_t stream = nullptr;
  unsigned long long* wrong = nullptr;

  Rank(Bootstrap& e, std::vector<Transport> transports, SymmMemTuning own = {}) : bootstrap(e) {
    demand(cudaSetDevice(static_cast<int>(e.local_rank())) == cudaSuccess, "cudaSetDevice");
    heap = got(SymmetricHeap::create(e), "heap");
    CommunicatorSettings settings = settings_for(e, std::move(transports));
    settings.own = own;
    settings.captured = true;
    group = got(Communicator::create(e, heap.get(), settings), "communicator");
    demand(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess, "cudaStreamCreate");
    demand(cudaMalloc(reinterpret_cast<void**>(&wrong), sizeof *wrong) == cudaSuccess, "cudaMalloc");
    demand(cudaMemset(wrong, 0, sizeof *wrong) == cudaSuccess, "cudaMemset");
  }
  unsigned long long found() {
    unsigned long long count = 0;
    got(check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"), "device");
    demand(cudaMemcpy(&count, wrong, sizeof count, cudaMemcpyDeviceToHost) == cudaSuccess, "cudaMemcpy");
    return count;
  }
};

/// Gathers and reduce-scatters of changing sizes through one transport, checked bit by bit.
void check_transport(Bootstrap& bootstrap, Transport transport, const SymmMemTuning& own, std::uint64_t repeats,
                     const std::string& how = "") {
  Rank r(bootstrap, {transport}, own);
  const std::uint32_t ranks = bootstrap.ranks();
  void* gathered = got(r.group->acquire(transport, kBuffer), "acquire");
  void* input = got(r.group->acquire(transport, kBuffer), "acquire");
  void* result = got(r.group->acquire(transport, kBuffer), "acquire");
  const bool exact_order = transport == Transport::low_contention;
  std::mt19937_64 random(99);
  for (std::uint64_t i = 1; i <= repeats; ++i) {
    const DType dtype = std::array{DType::bfloat16, DType::float32, DType::float16}[random() % 3];
    std::uint64_t count = 1 + random() % (1ULL << (3 + random() % 18));
    if (random() % 2 == 0) count = (count + 63) / 64 * 64;
    const Pattern pattern{i, !exact_order};
    CollectiveWork work;
    work.transport = transport;
    work.bytes = count * ranks * itemsize(dtype);
    work.dtype = dtype;
    work.reduction = Reduction::sum;
    work.kind = CollectiveKind::all_gather;
    // Of the own transport also from a buffer apart.
    char* slice = exact_order && i % 3 == 0 ? static_cast<char*>(result)
                                            : static_cast<char*>(gathered) + bootstrap.rank() * count * itemsize(dtype);
    work.input = reinterpret_cast<Address>(slice);
    work.output = reinterpret_cast<Address>(gathered);
    demand(cudaMemsetAsync(gathered, 0xff, work.bytes, r.stream) == cudaSuccess, "cudaMemsetAsync");
    fill_pattern(slice, dtype, 0, count, bootstrap.rank(), pattern, r.stream);
    got(r.group->issue(work, r.stream), "all_gather");
    count_wrong_gather(gathered, dtype, count, ranks, pattern, r.wrong, r.stream);
    work.kind = CollectiveKind::reduce_scatter;
    work.input = reinterpret_cast<Address>(input);
    work.output = reinterpret_cast<Address>(result);
    const bool wide = exact_order && i % 4 == 0;  // … and averages in float32
    const DType sum_type = wide ? DType::float32 : dtype;
    if (wide) {
      work.output_dtype = sum_type;
      work.reduction = Reduction::average;
    }
    demand(cudaMemsetAsync(result, 0xff, count * itemsize(sum_type), r.stream) == cudaSuccess, "cudaMemsetAsync");
    fill_pattern(input, dtype, 0, count * ranks, bootstrap.rank(), pattern, r.stream);
    got(r.group->issue(work, r.stream), "reduce_scatter");
    count_wrong_reduce(result, dtype, sum_type, count, ranks, bootstrap.rank(),
                       wide ? 1.0F / static_cast<float>(ranks) : 1.0F, pattern, r.wrong, r.stream);
  }
  demand(r.found() == 0, fmt::format("{} {}: {} wrong elements", name(transport), how, r.found()));
  const std::vector<PathReport> paths = r.group->paths();
  demand(paths.size() == 2 && paths[0].calls == repeats, "two paths");
  if (bootstrap.rank() == 0)
    for (const PathReport& path : paths) std::fprintf(stderr, "%s\n", text(path).c_str());
  if (transport == Transport::low_contention && own.exchange_gather >= kBuffer)
    demand(paths[0].seen == "kernel foreshard_exchange_gather" && paths[1].seen == "kernel foreshard_exchange_reduce",
           "a small collective ran " + text(paths[0]) + ", " + text(paths[1]));
  else if (transport == Transport::low_contention || transport == Transport::copy_engine)
    demand(paths[0].seen.find("no kernel") != std::string::npos, "an all-gather of copy engines ran " + text(paths[0]));
}

/// What `put` puts on the stream, as a graph to launch on it.
template <class Put>
cudaGraphExec_t captured(cudaStream_t stream, const Put& put) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  got(check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture"), "graph");
  put();
  got(check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture"), "graph");
  got(check(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate"), "graph");
  got(check(cudaGraphDestroy(graph), "cudaGraphDestroy"), "graph");
  return exec;
}

/// A gather and a reduce-scatter of one transport in a graph, launched again and again on new data, and eager calls of
/// the same between: checked bit by bit.
void check_replays(Bootstrap& bootstrap, Transport transport, std::uint64_t count) {
  Rank r(bootstrap, {transport});
  const std::uint32_t ranks = bootstrap.ranks();
  void* gathered = got(r.group->acquire(transport, kBuffer), "acquire");
  void* input = got(r.group->acquire(transport, kBuffer), "acquire");
  void* result = got(r.group->acquire(transport, kBuffer), "acquire");
  constexpr DType kType = DType::bfloat16;
  char* slice = static_cast<char*>(gathered) + bootstrap.rank() * count * itemsize(kType);
  const auto work = [&](CollectiveKind kind, void* from, void* to) {
    CollectiveWork out{kind, transport, count * ranks * itemsize(kType), {}};
    out.dtype = kType;
    out.reduction = Reduction::sum;
    out.input = reinterpret_cast<Address>(from);
    out.output = reinterpret_cast<Address>(to);
    return out;
  };
  const auto put = [&] {
    got(r.group->issue(work(CollectiveKind::all_gather, slice, gathered), r.stream), "all_gather");
    got(r.group->issue(work(CollectiveKind::reduce_scatter, input, result), r.stream), "reduce_scatter");
  };
  cudaGraphExec_t exec = nullptr;
  for (std::uint64_t i = 1; i <= 24; ++i) {
    const Pattern pattern{i, transport != Transport::low_contention};
    demand(cudaMemsetAsync(gathered, 0xff, count * ranks * itemsize(kType), r.stream) == cudaSuccess, "cudaMemset");
    demand(cudaMemsetAsync(result, 0xff, count * itemsize(kType), r.stream) == cudaSuccess, "cudaMemsetAsync");
    fill_pattern(slice, kType, 0, count, bootstrap.rank(), pattern, r.stream);
    fill_pattern(input, kType, 0, count * ranks, bootstrap.rank(), pattern, r.stream);
    if (i == 3) exec = captured(r.stream, put);
    if (i < 3 || i % 5 == 0)
      put();
    else
      got(check(cudaGraphLaunch(exec, r.stream), "cudaGraphLaunch"), "graph");
    count_wrong_gather(gathered, kType, count, ranks, pattern, r.wrong, r.stream);
    count_wrong_reduce(result, kType, kType, count, ranks, bootstrap.rank(), 1.0F, pattern, r.wrong, r.stream);
  }
  demand(r.found() == 0, fmt::format("{} in a graph: {} wrong elements", name(transport), r.found()));
  got(check(cudaGraphExecDestroy(exec), "cudaGraphExecDestroy"), "graph");
}

}  // namespace

TEST_CASE("every transport's collectives can be captured, and each replay gathers and sums anew") {
  const std::uint32_t ranks = ranks_here();
  if (ranks == 0) FORESHARD_SKIP("needs two GPUs, this host has " << count_gpus());
  const auto body = [](Bootstrap& e) {
    for (const Transport t : {Transport::nccl, Transport::nccl_registered, Transport::symmetric, Transport::copy_engine,
                              Transport::low_contention})
      for (const std::uint64_t count : {std::uint64_t{96}, std::uint64_t{1} << 20}) check_replays(e, t, count);
    return 0;
  };
  CHECK(run_ranks(ranks, kTimeout, body) == 0);
}

TEST_CASE("every transport gathers and sums bit by bit") {
  const std::uint32_t ranks = ranks_here();
  if (ranks == 0) FORESHARD_SKIP("needs two GPUs, this host has " << count_gpus());
  // One start of CUDA for all: it takes seconds.
  const auto body = [](Bootstrap& e) {
    for (const Transport t : {Transport::nccl, Transport::nccl_registered, Transport::symmetric, Transport::copy_engine,
                              Transport::low_contention})
      check_transport(e, t, {}, 60);
    return 0;
  };
  CHECK(run_ranks(ranks, kTimeout, body) == 0);
}

TEST_CASE("a program's own kinds move and add what they say") {
  const std::uint32_t ranks = ranks_here();
  if (ranks == 0) FORESHARD_SKIP("needs two GPUs, this host has " << count_gpus());
  const auto body = [](Bootstrap& e) {
    Rank r(e, {});
    const std::size_t n = e.ranks();
    constexpr std::size_t kPart = 3;
    const auto value = [](std::size_t rank, std::size_t i) { return static_cast<float>(100 * rank + i); };
    const auto expected = [&](CollectiveKind kind, std::size_t i) {
      if (kind == CollectiveKind::all_to_all) return value(i / kPart, e.rank() * kPart + i % kPart);
      if (kind == CollectiveKind::broadcast) return value(0, i);
      if (kind == CollectiveKind::send_recv) return value((e.rank() + n - 1) % n, i);
      if (kind == CollectiveKind::all_reduce) return value(n - 1, i);  // their maximum
      float sum = 0;
      for (std::size_t rank = 0; rank < n; ++rank) sum += value(rank, i);
      return sum;
    };
    std::vector<float> host(n * kPart);
    void* input = got(r.group->acquire(Transport::nccl, kBuffer), "acquire");
    void* output = got(r.group->acquire(Transport::nccl, kBuffer), "acquire");
    for (const CollectiveKind kind : {CollectiveKind::all_to_all, CollectiveKind::broadcast, CollectiveKind::reduce,
                                      CollectiveKind::send_recv, CollectiveKind::all_reduce}) {
      for (std::size_t i = 0; i < host.size(); ++i) host[i] = value(e.rank(), i);
      CollectiveWork work{kind, Transport::nccl, host.size() * sizeof(float), {}};
      work.input = reinterpret_cast<Address>(input);
      work.output = reinterpret_cast<Address>(output);
      work.reduction = kind == CollectiveKind::all_reduce ? Reduction::maximum : Reduction::sum;
      demand(cudaMemcpy(input, host.data(), work.bytes, cudaMemcpyHostToDevice) == cudaSuccess, "cudaMemcpy");
      got(r.group->issue(work, r.stream), name(kind).data());
      got(check(cudaStreamSynchronize(r.stream), "cudaStreamSynchronize"), "stream");
      demand(cudaMemcpy(host.data(), output, work.bytes, cudaMemcpyDeviceToHost) == cudaSuccess, "cudaMemcpy");
      if (kind == CollectiveKind::reduce && e.rank() != 0) continue;
      for (std::size_t i = 0; i < host.size(); ++i)
        demand(host[i] == expected(kind, i), fmt::format("{}: element {} is {}", name(kind), i, host[i]));
    }
    return 0;
  };
  CHECK(run_ranks(ranks, kTimeout, body) == 0);
}

TEST_CASE("own reduce-scatters by every way") {
  const std::uint32_t ranks = ranks_here();
  if (ranks == 0) FORESHARD_SKIP("needs two GPUs, this host has " << count_gpus());
  SymmMemTuning brief;
  brief.exchange_gather = brief.exchange_scatter = 0;
  brief.brief_up_to = brief.direct_up_to = 64 * kGiB;
  SymmMemTuning resident = brief;
  resident.brief_up_to = 0;
  SymmMemTuning staged = resident;
  staged.direct_up_to = 0;
  staged.scatter.last = 64 * kKiB;
  SymmMemTuning pieces = staged;
  pieces.scatter.slots = 4;
  pieces.scatter.longest = 256 * kKiB;
  pieces.scatter.last = 16 * kKiB;
  pieces.scatter.together = 3;
  const auto body = [&](Bootstrap& e) {
    for (const SymmMemTuning& tuning : {brief, resident, staged, pieces})
      check_transport(e, Transport::low_contention, tuning, 200,
                      fmt::format("brief {}, direct {}, chunks of {}", tuning.brief_up_to, tuning.direct_up_to,
                                  tuning.scatter.longest));
    return 0;
  };
  CHECK(run_ranks(ranks, kTimeout, body) == 0);
}

TEST_CASE("a resident kernel says when it did each reduce-scatter") {
  const std::uint32_t ranks = ranks_here();
  if (ranks == 0) FORESHARD_SKIP("needs two GPUs, this host has " << count_gpus());
  const auto body = [](Bootstrap& e) {
    SymmMemTuning tuning;
    tuning.exchange_scatter = tuning.brief_up_to = 0;
    Rank r(e, {Transport::low_contention}, tuning);
    CollectiveWork work{CollectiveKind::reduce_scatter, Transport::low_contention, kBuffer, {}};
    work.dtype = DType::bfloat16;
    work.input = reinterpret_cast<Address>(got(r.group->acquire(Transport::low_contention, kBuffer), "acquire"));
    work.output = reinterpret_cast<Address>(got(r.group->acquire(Transport::low_contention, kBuffer), "acquire"));
    constexpr std::uint32_t kCalls = 20;
    for (std::uint32_t i = 0; i < kCalls; ++i) got(r.group->issue(work, r.stream), "reduce_scatter");
    got(check(cudaStreamSynchronize(r.stream), "cudaStreamSynchronize"), "stream");
    demand(r.group->resident_items() == kCalls, "as many items as calls");
    bool lingered = false;
    for (std::uint32_t i = 0; i < kCalls; ++i) {
      const ItemTime time = r.group->item_time(i);
      demand(time.number == i + 1 && time.launch >= 1 && time.launch <= time.number, "of this item");
      demand(time.begin < time.end, "it takes time");
      demand(i == 0 || time.begin >= r.group->item_time(i - 1).end, "one behind another");
      lingered = lingered || time.launch < time.number;
    }
    demand(lingered, "calls at once behind another are one launch's");
    return 0;
  };
  CHECK(run_ranks(ranks, kTimeout, body) == 0);
}

TEST_CASE("what is small is exchanged in lines, by any number of CTAs") {
  const std::uint32_t ranks = ranks_here();
  if (ranks == 0) FORESHARD_SKIP("needs two GPUs, this host has " << count_gpus());
  const auto body = [](Bootstrap& e) {
    for (const std::uint32_t ctas : {1U, 5U, kExchangeCtas}) {
      SymmMemTuning tuning;
      tuning.exchange_gather = tuning.exchange_scatter = kBuffer;
      tuning.exchange_ctas = ctas;
      check_transport(e, Transport::low_contention, tuning, 300, fmt::format("exchanged by {} CTAs", ctas));
    }
    return 0;
  };
  CHECK(run_ranks(ranks, kTimeout, body) == 0);
}

/// Gathers into several tensors and reduce-scatters of several, checked bit by bit.
void check_tensors(Bootstrap& bootstrap, const SymmMemTuning& own, std::uint64_t repeats) {
  constexpr Bytes kPlace = 512 * kKiB;  // of a tensor
  Rank r(bootstrap, {Transport::low_contention}, own);
  const std::uint32_t ranks = bootstrap.ranks();
  const Address buffer =
      reinterpret_cast<Address>(got(r.group->acquire(Transport::low_contention, kBuffer), "acquire"));
  const Address result =
      reinterpret_cast<Address>(got(r.group->acquire(Transport::low_contention, kBuffer), "acquire"));
  void* apart = nullptr;  // inputs of gathers that are not in place, in memory that peers cannot reach
  demand(cudaMalloc(&apart, kBuffer) == cudaSuccess, "cudaMalloc");
  std::mt19937_64 random(7);
  for (std::uint64_t i = 1; i <= repeats; ++i) {
    CollectiveWork work;
    work.transport = Transport::low_contention;
    work.dtype = std::array{DType::bfloat16, DType::float32, DType::float16}[random() % 3];
    work.reduction = Reduction::sum;
    const Bytes size = itemsize(work.dtype);
    std::vector<ShardedTensor> tensors(1 + random() % 40);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      std::uint64_t count = 1 + random() % (kPlace / size / ranks);
      if (random() % 4 != 0) count = (count + 7) / 8 * 8 <= kPlace / size / ranks ? (count + 7) / 8 * 8 : count;
      tensors[t] = {buffer + t * kPlace, count * size, count * size * ranks};
      work.bytes += tensors[t].bytes;
    }
    work.tensors = tensors;
    const auto pattern = [&](std::size_t t) { return Pattern{i * 100 + t, false}; };
    const auto memory = [](Address address) { return reinterpret_cast<void*>(address); };
    work.kind = CollectiveKind::all_gather;
    work.input = work.output = buffer;
    demand(cudaMemsetAsync(memory(buffer), 0xff, kBuffer, r.stream) == cudaSuccess, "cudaMemsetAsync");
    if (i % 2 == 0) work.input = reinterpret_cast<Address>(apart);
    Address from = work.input;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const Address slice = work.input == buffer ? tensors[t].address + bootstrap.rank() * tensors[t].part : from;
      fill_pattern(memory(slice), work.dtype, 0, tensors[t].part / size, bootstrap.rank(), pattern(t), r.stream);
      from += tensors[t].part;
    }
    got(r.group->issue(work, r.stream), "all_gather");
    for (std::size_t t = 0; t < tensors.size(); ++t)
      count_wrong_gather(memory(tensors[t].address), work.dtype, tensors[t].part / size, ranks, pattern(t), r.wrong,
                         r.stream);
    work.kind = CollectiveKind::reduce_scatter;
    work.input = buffer;
    work.output = result;
    demand(cudaMemsetAsync(memory(result), 0xff, kBuffer, r.stream) == cudaSuccess, "cudaMemsetAsync");
    for (std::size_t t = 0; t < tensors.size(); ++t)
      fill_pattern(memory(tensors[t].address), work.dtype, 0, tensors[t].bytes / size, bootstrap.rank(), pattern(t),
                   r.stream);
    got(r.group->issue(work, r.stream), "reduce_scatter");
    Address at = result;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      count_wrong_reduce(memory(at), work.dtype, work.dtype, tensors[t].part / size, ranks, bootstrap.rank(), 1.0F,
                         pattern(t), r.wrong, r.stream);
      at += tensors[t].part;
    }
  }
  (void)cudaFree(apart);
  demand(r.found() == 0, fmt::format("tensors: {} wrong elements", r.found()));
}

TEST_CASE("own collectives of several tensors, where they lie") {
  const std::uint32_t ranks = ranks_here();
  if (ranks == 0) FORESHARD_SKIP("needs two GPUs, this host has " << count_gpus());
  SymmMemTuning brief;
  brief.exchange_gather = brief.exchange_scatter = 0;
  brief.brief_up_to = 64 * kGiB;
  SymmMemTuning resident;
  resident.brief_up_to = 0;
  const auto body = [&](Bootstrap& e) {
    for (const SymmMemTuning& tuning : {SymmMemTuning{}, brief, resident}) check_tensors(e, tuning, 200);
    return 0;
  };
  CHECK(run_ranks(ranks, kTimeout, body) == 0);
}

TEST_CASE("memory of a pool is registered once and reused") {
  const std::uint32_t ranks = ranks_here();
  if (ranks == 0) FORESHARD_SKIP("needs two GPUs, this host has " << count_gpus());
  const auto body = [](Bootstrap& e) {
    Rank r(e, {Transport::symmetric, Transport::low_contention});
    for (const Transport t : {Transport::symmetric, Transport::low_contention}) {
      void* first = got(r.group->acquire(t, 4 * kMiB), "acquire");
      got(r.group->release(first), "release");
      demand(got(r.group->acquire(t, 3 * kMiB), "acquire") == first, "the free segment is taken");
      demand(!r.group->release(nullptr), "what was not acquired cannot be released");
    }
    const PoolCounters& c = r.group->counters();
    demand(c.acquired == 4 && c.reused == 2 && c.registered == 2, "counted");
    const Address own = reinterpret_cast<Address>(got(r.heap->allocate(1), "allocate"));
    demand(r.heap->translate(own + 5, e.local_rank()) == own + 5, "its own copy");
    demand(!r.heap->translate(own + r.heap->granularity(), 0), "nothing behind the end");
    demand(r.heap->contains(own, r.heap->granularity()) && !r.heap->contains(own + 1, r.heap->granularity()), "whole");
    got(r.heap->release(reinterpret_cast<void*>(own)), "release");
    demand(!r.heap->contains(own, 1), "gone");
    return 0;
  };
  CHECK(run_ranks(ranks, kTimeout, body) == 0);
}

TEST_CASE("an all-gather and a reduction on streams of their own") {
  const std::uint32_t ranks = ranks_here();
  if (ranks == 0) FORESHARD_SKIP("needs two GPUs, this host has " << count_gpus());
  const auto body = [](Bootstrap& e) {
    Rank gathers(e, {Transport::low_contention});
    SymmMemTuning tuning;
    tuning.direct_up_to = 0;
    Rank scatters(e, {Transport::low_contention}, tuning);
    void* whole = got(gathers.group->acquire(Transport::low_contention, kBuffer), "acquire");
    void* input = got(scatters.group->acquire(Transport::low_contention, kBuffer), "acquire");
    void* result = got(scatters.group->acquire(Transport::low_contention, kBuffer), "acquire");
    const std::uint64_t count = kBuffer / 2 / e.ranks();
    for (std::uint64_t i = 1; i <= 50; ++i) {
      CollectiveWork work;
      work.transport = Transport::low_contention;
      work.bytes = kBuffer;
      work.dtype = DType::bfloat16;
      work.kind = CollectiveKind::all_gather;
      char* slice = static_cast<char*>(whole) + e.rank() * count * 2;
      work.input = reinterpret_cast<Address>(slice);
      work.output = reinterpret_cast<Address>(whole);
      fill_pattern(slice, DType::bfloat16, 0, count, e.rank(), {i, false}, gathers.stream);
      got(gathers.group->issue(work, gathers.stream), "all_gather");
      count_wrong_gather(whole, DType::bfloat16, count, e.ranks(), {i, false}, gathers.wrong, gathers.stream);
      work.kind = CollectiveKind::reduce_scatter;
      work.input = reinterpret_cast<Address>(input);
      work.output = reinterpret_cast<Address>(result);
      fill_pattern(input, DType::bfloat16, 0, count * e.ranks(), e.rank(), {i, false}, scatters.stream);
      work.output_dtype = DType::float32;
      got(scatters.group->issue(work, scatters.stream), "reduce_scatter");
      count_wrong_reduce(result, DType::bfloat16, DType::float32, count, e.ranks(), e.rank(),
                         1.0F / static_cast<float>(e.ranks()), {i, false}, scatters.wrong, scatters.stream);
    }
    demand(gathers.found() == 0 && scatters.found() == 0, "wrong elements");
    return 0;
  };
  CHECK(run_ranks(ranks, kTimeout, body) == 0);
}

TEST_CASE("a rank that does not come holds nobody up for good") {
  const std::uint32_t ranks = ranks_here();
  if (ranks == 0) FORESHARD_SKIP("needs two GPUs, this host has " << count_gpus());
  struct Case {
    Transport transport;
    Bytes bytes;
  };
  for (const Case& c : {Case{Transport::nccl, kBuffer / 2}, Case{Transport::low_contention, kBuffer / 2},
                        Case{Transport::low_contention, 64 * kKiB}}) {
    CAPTURE(name(c.transport), c.bytes);
    const auto body = [c](Bootstrap& e) -> int {
      const Transport t = c.transport;
      Rank r(e, {t});
      void* memory = got(r.group->acquire(t, kBuffer), "acquire");
      got(e.barrier("ready"), "barrier");
      if (e.rank() == 1) std::_Exit(0);
      CollectiveWork work;
      work.transport = t;
      work.kind = CollectiveKind::reduce_scatter;
      work.dtype = DType::bfloat16;
      work.bytes = c.bytes;
      work.input = reinterpret_cast<Address>(memory);
      work.output = reinterpret_cast<Address>(memory) + c.bytes;
      std::thread watchdog([&] {
        std::this_thread::sleep_for(std::chrono::seconds(2));
        r.group->abort();
      });
      const auto start = std::chrono::steady_clock::now();
      (void)r.group->issue(work, r.stream);
      (void)cudaStreamSynchronize(r.stream);
      watchdog.join();
      demand(std::chrono::steady_clock::now() - start < std::chrono::seconds(8), "the waits did not end");
      demand(!r.group->issue(work, r.stream), "a group that was given up takes no call");
      std::fflush(nullptr);
      std::_Exit(0);
    };
    CHECK(run_ranks(ranks, kTimeout, body) == 0);
  }
}

}  // namespace foreshard::gpu

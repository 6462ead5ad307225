// Speed of the messages of rings, messages a second: one slow link, every link unlike the others. Where SimGrid is
// installed (libsimgrid-dev), the same ring there, which must end within a nanosecond of ours.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <string>

#include "sim/network/message_ring.hpp"
#ifdef FORESHARD_SIMGRID
#include "tests/bench/simgrid_ring.hpp"
#endif

namespace foreshard::sim {
namespace {

constexpr Nanoseconds kLatency{5000};
constexpr double kBytes = 1'020'000;          // whole nanoseconds on either link: SimGrid rounds nothing
constexpr double kHealthy = 50, kSlow = 8.5;  // GB/s

/// GB/s of each hop: one link of all is slow, or each is a little unlike the others.
std::vector<double> bandwidths(std::size_t ranks, bool unlike) {
  std::vector<double> out(ranks, kHealthy);
  if (unlike)
    for (std::size_t i = 0; i < ranks; ++i) out[i] += static_cast<double>(i * 7919 % 10007) * 1e-3;
  out[ranks / 3] = kSlow;
  return out;
}

Nanoseconds run(const std::vector<double>& bandwidths, std::uint32_t collectives) {
  std::vector<Nanoseconds> times;
  for (const double bandwidth : bandwidths) times.push_back(message_time(kLatency, kBytes, bandwidth));
  MessageRing ring(std::move(times));
  std::vector<Nanoseconds> ranks(bandwidths.size());
  for (std::uint32_t i = 0; i < collectives; ++i) ring.run(static_cast<std::uint32_t>(ranks.size()) - 1, ranks);
  return *std::max_element(ranks.begin(), ranks.end());
}

std::int64_t messages(const benchmark::State& state) {
  return state.range(0) * (state.range(0) - 1) * state.range(1);
}

void ring(benchmark::State& state, bool unlike) {
  const std::vector<double> hops = bandwidths(static_cast<std::size_t>(state.range(0)), unlike);
  for (auto _ : state) benchmark::DoNotOptimize(run(hops, static_cast<std::uint32_t>(state.range(1))));
  state.SetItemsProcessed(state.iterations() * messages(state));
}
BENCHMARK_CAPTURE(ring, one_slow_link, false)
    ->Args({64, 4})
    ->Args({512, 33})
    ->Args({4096, 48})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ring, all_unlike, true)->Args({512, 33})->Args({4096, 48})->Unit(benchmark::kMillisecond);

#ifdef FORESHARD_SIMGRID
void simgrid(benchmark::State& state) {
  const std::vector<double> hops = bandwidths(static_cast<std::size_t>(state.range(0)), false);
  const auto collectives = static_cast<std::uint32_t>(state.range(1));
  for (auto _ : state) {
    const double theirs = bench::simgrid_ring(hops, kLatency.count * 1e-9, kBytes, collectives) * 1e9;
    const double ours = static_cast<double>(run(hops, collectives).count);
    state.counters["ns_apart"] = theirs - ours;
    if (std::abs(theirs - ours) > 1)
      state.SkipWithError(("SimGrid ends at " + std::to_string(theirs) + " ns, not " + std::to_string(ours)).c_str());
  }
  state.SetItemsProcessed(state.iterations() * messages(state));
}
/// SimGrid has one engine a process: one case, once. FORESHARD_SIMGRID_CASE="512 33" takes another one (28 s).
void simgrid_case(benchmark::internal::Benchmark* one) {
  std::int64_t ranks = 64, collectives = 4;
  if (const char* const given = std::getenv("FORESHARD_SIMGRID_CASE")) {
    std::istringstream(given) >> ranks >> collectives;
  }
  one->Args({ranks, collectives});
}
BENCHMARK(simgrid)->Apply(simgrid_case)->Iterations(1)->Unit(benchmark::kMillisecond);
#endif

}  // namespace
}  // namespace foreshard::sim

// Measures the collectives of gpu/collectives on the GPUs of this host, one process a GPU: by size, beside compute, and
// for correctness. Prints one JSON line a measurement ("BENCH {…}"); exit code 77 without enough GPUs.
//
//   gpu_bench_collectives --ranks 4 -v ag:own -v rs:own -v ag:nccl --sizes 4,64,512 --contention --check 1000
//
// With --gpus fewer than --ranks several ranks take turns on a GPU: our own collectives can then be checked for more
// ranks than there are GPUs. NCCL refuses that, and times say nothing.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "tests/gpu/collectives/bench/rank_bench.hpp"
#include "tests/gpu/collectives/forked_ranks.hpp"
#include "tests/gpu/collectives/gpus.hpp"

namespace {

using namespace foreshard;
using namespace foreshard::gpu;

struct Arguments {
  std::uint32_t ranks = 4;
  std::uint32_t gpus = 0;  // 0: as many as ranks
  std::vector<std::string> variants;
  std::vector<double> sizes;
  bool contention = false;
  std::vector<double> contention_sizes{512};
  std::string beside;
  std::uint64_t check = 0;
  std::string out;
  int timeout_s = 300;
};

std::vector<Bytes> bytes_of(const std::vector<double>& mib) {
  std::vector<Bytes> out;
  for (const double one : mib) out.push_back(static_cast<Bytes>(one * static_cast<double>(kMiB)));
  return out;
}

int run_rank(Bootstrap& bootstrap, const Arguments& a, const std::vector<Variant>& variants,
             const std::optional<Variant>& beside) {
  std::FILE* out = bootstrap.rank() == 0 && !a.out.empty() ? std::fopen(a.out.c_str(), "a") : nullptr;
  const std::vector<Bytes> sizes = bytes_of(a.sizes);
  const std::vector<Bytes> contended = a.contention || beside ? bytes_of(a.contention_sizes) : std::vector<Bytes>{};
  Bytes largest = 64 * kMiB;
  for (const auto& list : {sizes, contended})
    for (const Bytes bytes : list) largest = std::max(largest, bytes);
  std::uint64_t wrong = 0;
  RankBench bench(bootstrap, variants, a.gpus, largest, out);
  for (const Variant& variant : variants) {
    if (a.check != 0) wrong += bench.check(variant, a.check);
    bench.sizes(variant, sizes);
    for (const Bytes bytes : contended) {
      if (a.contention) bench.contention(variant, bytes);
      if (beside) bench.contention(variant, bytes, beside);
    }
  }
  bench.paths();
  if (out != nullptr) std::fclose(out);
  return wrong == 0 ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  CLI::App app{"Measures collectives on the GPUs of this host"};
  app.add_option("--ranks", a.ranks, "processes, one a GPU")->check(CLI::Range(2, 8));
  app.add_option("--gpus", a.gpus, "GPUs that the ranks share: to check own variants; default: --ranks");
  app.add_option("-v,--variant", a.variants, "ag:nccl|registered|symmetric|copy_engine|own[,key=value…], rs:…")
      ->required()
      ->take_all();
  app.add_option("--sizes", a.sizes, "whole buffers in MiB")->delimiter(',');
  app.add_flag("--contention", a.contention, "beside a GEMM and a memory-bound kernel");
  app.add_option("--contention-sizes", a.contention_sizes, "whole buffers in MiB beside another; default: 512")
      ->delimiter(',');
  app.add_option("--beside", a.beside,
                 "beside this variant of the other kind, of the same size: -v rs:own --beside ag:own");
  app.add_option("--check", a.check, "calls of changing sizes to check bit by bit");
  app.add_option("--out", a.out, "append JSON lines to this file");
  app.add_option("--timeout", a.timeout_s, "seconds after which all ranks are killed");
  CLI11_PARSE(app, argc, argv);
  std::vector<Variant> variants;
  for (const std::string& text : a.variants) {
    auto variant = parse_variant(text);
    if (!variant) {
      std::fprintf(stderr, "%s\n", variant.error().text().c_str());
      return 2;
    }
    variants.push_back(std::move(*variant));
  }
  std::optional<Variant> beside;
  if (!a.beside.empty()) {
    auto variant = parse_variant(a.beside);
    if (!variant) {
      std::fprintf(stderr, "%s\n", variant.error().text().c_str());
      return 2;
    }
    beside = std::move(*variant);
  }
  // Streams that share a hardware queue would wait for each other's flags.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  if (a.gpus == 0) a.gpus = a.ranks;
  if (const int gpus = count_gpus(); gpus < static_cast<int>(a.gpus)) {
    std::printf("skipped: %u GPUs asked for, %d here\n", a.gpus, gpus);
    return 77;
  }
  return run_ranks(a.ranks, a.timeout_s,
                   [&](Bootstrap& bootstrap) { return run_rank(bootstrap, a, variants, beside); });
}

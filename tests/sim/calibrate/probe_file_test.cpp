#include "sim/calibrate/probe_file.hpp"

#include <algorithm>

#include "core/device/collective.hpp"
#include "sim/calibrate/fit_machine.hpp"
#include "sim/machine/profile.hpp"
#include "tests/catch.hpp"
#include "tests/sim/calibrate/samples.hpp"
#include "tests/temporary_folder.hpp"

namespace foreshard::sim {
namespace {

constexpr std::string_view kProbe = R"([
{"variant": "nccl-zero-cta", "world": 4, "op": "all_gather", "total_bytes": 1048576, "us": 22.8, "busbw_GBps": 34.5},
{"variant": "nccl", "world": 16, "ranks_per_node": 8, "op": "reduce_scatter", "total_bytes": 65536, "us": 33.2},
{"variant": "nccl", "world": 4, "op": "contention", "compute": "copy512MB", "comm": "all_gather",
 "compute_isolated_us": 253.8, "compute_under_comm_us": 305.3, "comm_isolated_us": 1249.1,
 "comm_under_compute_us": 2124.0,
 "slowdown_compute": 1.2, "slowdown_comm": 1.7},
{"what": "hbm_copy", "gbps_read_plus_write": 4239.6},
{"what": "peer_copy", "pattern": "one_pair", "bytes_per_copy": 268435456, "gbps_per_gpu": 389.4, "us": 689.4},
{"what": "peer_copy", "pattern": "ring", "bytes_per_copy": 268435456, "gbps_per_gpu": 281.3, "us": 954.3},
{"what": "gemm", "m": 4096, "tflops": 796.5},
{"variant": "nccl", "world": 4, "op": "error", "what": "out of memory"}
])";

Error probe_error(const std::string& text) {
  const auto read = read_measurements(text, "probe.json");
  REQUIRE_FALSE(read);
  CHECK(read.error().kind == ErrorKind::input);
  return read.error();
}

TEST_CASE("what was measured of sends and receives gives h200's tables and constant back") {
  const char* file = "sim/machine/measured/h200_p2p.json";
  auto read = read_measurements(test::file_bytes(file), file);
  REQUIRE(read);
  read->path = file;
  const auto fit = fit_machine(std::vector{*read}, {"mine", "h200", {}});
  REQUIRE(fit);
  const MachineProfile made = *parse_profile(fit->json, "mine.json");
  const MachineProfile built_in = *builtin_profile("h200");
  CHECK(made.links.p2p_channel == built_in.links.p2p_channel);
  std::size_t same = 0;
  for (const CollectiveTable& table : built_in.collectives) {
    if (of_fsdp(table.kind)) continue;
    for (const CollectiveTable& other : made.collectives)
      if (other.kind == table.kind && other.points.size() == table.points.size() &&
          std::equal(other.points.begin(), other.points.end(), table.points.begin(),
                     [](const auto& a, const auto& b) { return a.bytes == b.bytes && a.time == b.time; }))
        ++same;
  }
  CHECK(same == 4);
}

TEST_CASE("each kind of row of a probe file is read") {
  const auto read = read_measurements(kProbe, "probe.json");
  REQUIRE(read);
  REQUIRE(read->collectives.size() == 2);
  CHECK(read->collectives[0].transport == Transport::copy_engine);
  CHECK(read->collectives[0].ranks_per_node == 4);
  CHECK(read->collectives[1].ranks_per_node == 8);
  REQUIRE(read->contention.size() == 1);
  CHECK(read->contention[0].kernel_class == KernelClass::memory_bound);
  CHECK(read->contention[0].collective_concurrent_us == 2124.0);
  REQUIRE(read->rates.size() == 3);
  CHECK(read->rates[2].what == RateSample::What::gemm_bfloat16);
  CHECK(read->notes.size() == 2);
}

TEST_CASE("a reduction's row says whether its results are wider") {
  const auto read =
      read_measurements(replaced(kProbe, "\"us\": 33.2", "\"us\": 33.2, \"upcasts\": true"), "probe.json");
  REQUIRE(read);
  CHECK_FALSE(read->collectives[0].upcasts);
  CHECK(read->collectives[1].upcasts);
  CHECK_FALSE(read->contention[0].upcasts);
  const std::string scatter =
      replaced(kProbe, "\"comm\": \"all_gather\"", "\"comm\": \"reduce_scatter\", \"upcasts\": true");
  const auto concurrent = read_measurements(scatter, "probe.json");
  REQUIRE(concurrent);
  CHECK(concurrent->contention[0].upcasts);
  const Error gather = probe_error(replaced(kProbe, "\"us\": 22.8", "\"us\": 22.8, \"upcasts\": true"));
  CHECK(gather.where == "probe.json row 0");
  CHECK(gather.what == "'upcasts' is said of an all-gather");
  CHECK(probe_error(replaced(kProbe, "\"us\": 33.2", "\"us\": 33.2, \"upcasts\": 1")).where == "probe.json row 1");
}

TEST_CASE("a reduction's row says of what dtype its sums are; one that does not has bfloat16's") {
  const auto read =
      read_measurements(replaced(kProbe, "\"us\": 33.2", "\"us\": 33.2, \"dtype\": \"float32\""), "probe.json");
  REQUIRE(read);
  CHECK(read->collectives[1].dtype == DType::float32);
  CHECK(read_measurements(kProbe, "probe.json")->collectives[1].dtype == DType::bfloat16);
  CHECK(probe_error(replaced(kProbe, "\"us\": 22.8", "\"us\": 22.8, \"dtype\": \"float32\"")).what ==
        "'dtype' is said of a collective that adds nothing");
  CHECK(probe_error(replaced(kProbe, "\"us\": 33.2", "\"us\": 33.2, \"dtype\": \"float33\"")).where ==
        "probe.json row 1");
}

TEST_CASE("files of older probes are read: isolated times were 'alone', upcasts was 'widens'") {
  const std::string scatter =
      replaced(kProbe, "\"comm\": \"all_gather\"", "\"comm\": \"reduce_scatter\", \"upcasts\": true");
  const std::string old =
      replaced(replaced(replaced(scatter, "upcasts", "widens"), "comm_isolated_us", "comm_alone_us"),
               "compute_isolated_us", "compute_alone_us");
  const auto then = read_measurements(old, "probe.json");
  const auto now = read_measurements(scatter, "probe.json");
  REQUIRE(then);
  REQUIRE(now);
  CHECK(then->contention[0].upcasts);
  CHECK(then->contention[0].kernel_isolated_us == now->contention[0].kernel_isolated_us);
  CHECK(then->contention[0].collective_isolated_us == now->contention[0].collective_isolated_us);
  CHECK(probe_error(replaced(scatter, "\"upcasts\"", "\"widens\": true, \"upcasts\"")).what ==
        "'upcasts' is what 'widens' was called before, and both are here");
}

TEST_CASE("wrong rows are refused with their number") {
  CHECK(probe_error(replaced(kProbe, "\"world\": 4", "\"world\": 1")).where == "probe.json row 0");
  CHECK(probe_error(replaced(kProbe, "\"us\": 33.2", "\"us\": -33.2")).where == "probe.json row 1");
  CHECK(probe_error(replaced(kProbe, "\"us\": 33.2", "\"us\": 1e300")).where == "probe.json row 1");
  CHECK(probe_error(replaced(kProbe, "\"ranks_per_node\": 8", "\"ranks_per_node\": 32")).where == "probe.json row 1");
  CHECK(probe_error(replaced(kProbe, "nccl-zero-cta", "nccl-zero-ct")).hint == "did you mean 'nccl-zero-cta'?");
  CHECK(probe_error(replaced(kProbe, "\"op\": \"all_gather\"", "\"op\": \"allgather\"")).hint ==
        "did you mean 'all_gather'?");
  CHECK(probe_error(replaced(kProbe, "total_bytes", "total_byte")).what == "unknown key 'total_byte'");
  CHECK(probe_error(replaced(kProbe, "\"tflops\": 796.5", "\"tflops\": \"fast\"")).where == "probe.json row 6");
  CHECK(probe_error("[1, 2]").what.find("nccl-tests") == std::string::npos);
  CHECK(probe_error("[]").what == "holds nothing that a profile can use");
  CHECK(probe_error(std::string(kProbe).substr(0, 300)).what == "this is not valid JSON: it is cut short");
  CHECK(probe_error(replaced(kProbe, "\"us\": 33.2", "\"us\": 33.2, \"us\": 3.2")).what ==
        "the key 'us' occurs twice in one object");
}

TEST_CASE("a row a line is read, as benchmarks print it") {
  const std::string lines =
      "{\"variant\": \"ag:nccl\", \"world\": 8, \"op\": \"all_gather\", \"total_bytes\": \"128M\", \"us\": 390}\n\n"
      "{\"variant\": \"rs:symmetric\", \"world\": 8, \"op\": \"reduce_scatter\", \"total_bytes\": 1048576, \"us\": "
      "15}\n"
      "{\"variant\": \"ag:own\", \"world\": 8, \"op\": \"all_gather\", \"total_bytes\": 1048576, \"us\": 23}\n"
      "{\"op\": \"path\", \"text\": \"all_gather: nccl\"}\n";
  const auto read = read_measurements(lines, "bench.jsonl");
  if (!read) FAIL(read.error().text());
  REQUIRE(read->collectives.size() == 2);
  CHECK(read->collectives[0].bytes == 128 * kMiB);
  CHECK_FALSE(read->collectives[0].by_pytorch);
  CHECK(read->collectives[1].transport == Transport::symmetric);
  CHECK(read->notes.size() == 2);
  // With the launcher's lines between.
  std::string marked = "W torch.distributed.run: OMP_NUM_THREADS\n";
  for (const char* row : {R"({"variant": "nccl", "world": 4, "op": "all_gather", "total_bytes": "1G", "us": 2400})",
                          R"({"variant": "nccl", "world": 4, "op": "all_gather", "total_bytes": "64k", "us": 30})"})
    marked += std::string("BENCH ") + row + "\n";
  const auto log = read_measurements(marked, "log.txt");
  if (!log) FAIL(log.error().text());
  REQUIRE(log->collectives.size() == 2);
  CHECK(log->collectives[0].bytes == kGiB);
  CHECK(log->collectives[1].bytes == 64 * kKiB);
  CHECK(log->collectives[0].by_pytorch);
  CHECK(log->notes.size() == 1);
  // One row alone; errors name the line.
  CHECK(read_measurements(lines.substr(0, lines.find('\n')), "one.jsonl")->collectives.size() == 1);
  CHECK(probe_error(replaced(lines, "\"us\": 15", "\"us\": 0")).where == "probe.json line 3");
  CHECK(probe_error(replaced(lines, "\"us\": 15}", "\"us\": 15")).where.starts_with("probe.json line 3"));
  CHECK(probe_error(replaced(lines, "128M", "128Q")).what.find("is no size") != std::string::npos);
  CHECK(probe_error(replaced(lines, "128M", "4096T")).what.find("is no size") != std::string::npos);
}

TEST_CASE("deep nesting ends in an error") {
  std::string deep = "[{\"op\":";
  for (int i = 0; i < 100000; ++i) deep += '[';
  CHECK_FALSE(probe_error(deep).what.empty());
}

}  // namespace
}  // namespace foreshard::sim

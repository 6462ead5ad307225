// A plan's allocator is replayed as PyTorch's is: its run, exported as a memory snapshot, goes through the replay
// without a difference, whatever the allocator's options and whether its memory limit is told or found.
#include "core/allocator/replay.hpp"
#include "sim/predict/predict.hpp"
#include "tests/property/timed_workload.hpp"
#include "tests/random_units.hpp"
#include "traces/export/byte_sink.hpp"
#include "traces/export/snapshot_pickle.hpp"
#include "traces/pytorch/snapshot_file.hpp"

namespace foreshard::test {
namespace {

std::string any_options() {
  const auto one_of = [](const std::vector<std::string>& values) {
    const std::string value = *rc::gen::elementOf(values);
    return value.empty() ? value : "," + value;
  };
  return "large_segment_size_mb:20" +
         one_of({"", "garbage_collection_threshold:0.5", "garbage_collection_threshold:0.9"}) +
         one_of({"", "max_split_size_mb:21", "max_split_size_mb:64", "max_split_size_mb:200"}) +
         one_of({"", "max_non_split_rounding_mb:60"}) + one_of({"", "roundup_power2_divisions:8"}) +
         one_of({"", "expandable_segments:True"});
}

Snapshot exported(const Run& run) {
  std::ostringstream out;
  traces::ByteSink sink = traces::ByteSink::to_stream(out);
  RC_ASSERT(traces::write_snapshot(run, sink).has_value());
  RC_ASSERT(sink.finish().has_value());
  auto source = traces::ByteSource::from_memory("plan.pickle", out.str());
  RC_ASSERT(source.has_value());
  auto file = traces::read_snapshot(*source);
  RC_ASSERT(file.has_value());
  return std::move(file->snapshot);
}

TEST_CASE("a plan under any allocator options replays without a difference") {
  const auto machine = sim::builtin_profile("h200");
  REQUIRE(machine);
  CHECK(rc::check("a plan's requests, replayed", [&] {
    Settings wanted = random_settings();
    wanted.all_gather = Transport::nccl;  // an oom entry does not say which pool was asked
    wanted.cuda_graph.reset();            // … nor whether a capture did
    const Workload w = timed_workload(wanted, random_units({1, 8192}, {1, 8192}));
    const auto free = sim::predict(w, *machine, {wanted, {}, 3});
    RC_ASSERT(free.has_value());
    // A limit at, above or below what the plan takes without one; below: it retries, collects, or runs out of memory.
    const double share = *rc::gen::element(0.0, 0.6, 0.8, 0.9, 0.95, 1.0, 1.1);
    wanted.alloc_conf = any_options();
    if (share > 0)
      wanted.alloc_conf +=
          fmt::format(",per_process_memory_fraction:{:.8f}",
                      share * static_cast<double>(free->peaks.reserved) / static_cast<double>(free->memory_capacity));
    const auto plan = sim::predict(w, *machine, {wanted, {}, 3});
    RC_ASSERT(plan.has_value());
    const auto report = verify(exported(plan->run), {});
    RC_ASSERT(report.has_value());
    if (report->mismatches > 0) RC_LOG() << wanted.alloc_conf << ": " << report->first_mismatch << '\n';
    RC_ASSERT(report->mismatches == 0u);
    RC_ASSERT(!report->limit_contradicts);
    RC_ASSERT(report->statistics.num_ooms == (plan->out_of_memory ? 1 : 0));
    RC_CLASSIFY(plan->out_of_memory.has_value(), "out of memory");
    RC_CLASSIFY(plan->num_alloc_retries > 0, "retries in the last step");
    RC_CLASSIFY(report->limit.has_value(), "limit found");
  }));
}

}  // namespace
}  // namespace foreshard::test

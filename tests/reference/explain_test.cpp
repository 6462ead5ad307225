// The reference runs explained: every byte of every event, the recorded causes, and nothing on clean runs.
//
// The recordings are in the folder that the environment's FORESHARD_TRUTH names; without it the tests are skipped.
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/explain/explanation.hpp"
#include "sim/predict/predict.hpp"
#include "sim/sweep/remedies.hpp"
#include "tests/catch.hpp"
#include "tests/truth_folder.hpp"
#include "traces/import/import.hpp"

namespace foreshard {
namespace {

namespace fs = std::filesystem;

/// Every snapshot of a folder of the reference runs, without its suffix.
std::vector<std::string> recordings(const std::string& folder) {
  std::vector<std::string> found;
  constexpr std::string_view kSuffix = ".pickle.xz";
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (path.ends_with(kSuffix)) found.push_back(path.substr(0, path.size() - kSuffix.size()));
  }
  std::sort(found.begin(), found.end());
  return found;
}

traces::Imported import_stem(const std::string& stem, bool with_about = true) {
  traces::ImportRequest request;
  request.snapshot = stem + ".pickle.xz";
  if (with_about && fs::exists(stem + ".about.json")) request.about = stem + ".about.json";
  if (!request.about.empty() && fs::exists(stem + ".trace.json.xz")) request.trace = stem + ".trace.json.xz";
  auto imported = traces::import_recording(request);
  INFO((imported ? "" : imported.error().text()));
  REQUIRE(imported);
  return std::move(*imported);
}

/// allocated_bytes and reserved_bytes after each event by PyTorch's own bookkeeping: sums of changes, and the final
/// segments say where they end (c10/cuda/CUDACachingAllocator.cpp of 2.11, malloc(), free(), alloc_block()).
struct Totals {
  std::vector<std::int64_t> allocated, reserved;

  explicit Totals(const Run& run) {
    std::int64_t a = 0, r = 0;
    for (const AllocatorRecord& event : run.allocator) {
      const auto size = static_cast<std::int64_t>(event.size);
      const bool known = event.block.valid();
      const auto block =
          static_cast<std::int64_t>(known ? run.blocks[event.block.value].size : round_up(event.size, 512));
      if (event.action == AllocatorAction::alloc) a += block;
      if (event.action == AllocatorAction::free_requested) a -= block;
      if (event.action == AllocatorAction::segment_alloc || event.action == AllocatorAction::segment_map) r += size;
      if (event.action == AllocatorAction::segment_free || event.action == AllocatorAction::segment_unmap) r -= size;
      allocated.push_back(a);
      reserved.push_back(r);
    }
    std::int64_t live = 0, total = 0;
    for (const SnapshotSegment& segment : run.segments) {
      total += static_cast<std::int64_t>(segment.total_size);
      for (const SnapshotBlock& block : segment.blocks)
        if (block.state == BlockState::live) live += static_cast<std::int64_t>(block.size);
    }
    for (std::int64_t& value : allocated) value += live - a;
    for (std::int64_t& value : reserved) value += total - r;
  }
};

TEST_CASE("on every recording the parts add up to reserved and allocated at every event", "[reference][explain]") {
  if (!test::truth_folder()) FORESHARD_SKIP(test::kNoTruth);
  for (const char* part : {"runs", "allocator"})
    for (const std::string& stem : recordings(test::truth_folder(part).value())) {
      INFO(stem);
      const Run run = import_stem(stem).run;
      const auto series = gap_series(run);
      REQUIRE(series);
      const Totals totals(run);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < series->size(); ++i) {
        const MemoryParts& parts = (*series)[i];
        const bool right = static_cast<std::int64_t>(parts.allocated()) == totals.allocated[i] &&
                           static_cast<std::int64_t>(parts.reserved()) == totals.reserved[i] &&
                           static_cast<std::int64_t>(parts.gap()) == totals.reserved[i] - totals.allocated[i];
        if (!right) ++wrong;
      }
      CHECK(wrong == 0);
    }
}

TEST_CASE("every step's peaks are the replay's, and no event contradicts the state", "[reference][explain]") {
  const auto folder = test::truth_folder("runs");
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
  for (const std::string& stem : recordings(*folder)) {
    INFO(stem);
    const Run run = import_stem(stem).run;
    const auto e = explain(run, {});
    REQUIRE(e);
    CHECK(e->odd_events == 0);
    std::size_t at = 0;
    for (const StepRecord& step : run.steps) {
      if (step.recording == Recording::trace) continue;
      REQUIRE(at < e->steps.size());
      CHECK(e->steps[at].peaks == step.peaks);
      ++at;
    }
    CHECK(at == e->steps.size());
  }
}

TEST_CASE("a plan from a recording explains itself as it was planned", "[reference][explain]") {
  const auto machine = sim::builtin_profile("h200");
  REQUIRE(machine);
  const auto folder = test::truth_folder("runs");
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
  for (const std::string& stem : recordings(*folder)) {
    INFO(stem);
    const traces::Imported imported = import_stem(stem);
    REQUIRE(imported.workload);
    const auto p = sim::predict(*imported.workload, *machine, {imported.run.settings, {}, 4});
    INFO((p ? "" : p.error().text()));
    REQUIRE(p);
    const auto e = explain(p->run, {});
    INFO((e ? "" : e.error().text()));
    REQUIRE(e);
    CHECK(e->odd_events == 0);
    CHECK(e->peaks == p->peaks);
    CHECK(e->causes.size() == (imported.run.settings.release == Release::record_stream ? 1u : 0u));
  }
}

bool records_streams(const Run& run) {
  return run.settings.release == Release::record_stream;
}

TEST_CASE("record_stream is found where it was, from the snapshot alone, too; clean runs are accused of nothing",
          "[reference][explain]") {
  const auto folder = test::truth_folder("runs");
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
  for (const std::string& stem : recordings(*folder))
    for (const bool with_about : {true, false}) {
      INFO(stem << (with_about ? "" : ", the snapshot alone"));
      const bool dirty = records_streams(import_stem(stem).run);
      const Run run = import_stem(stem, with_about).run;
      const auto e = explain(run, {});
      REQUIRE(e);
      CHECK(e->causes.size() == (dirty ? 1u : 0u));
      CHECK((e->pending_free_peak > 0) == dirty);
      if (!dirty || e->causes.empty()) continue;
      const Cause& cause = e->causes.front();
      CHECK(cause.kind == CauseKind::record_stream);
      CHECK(cause.category == MemoryCategory::gather_buffers);
      CHECK(cause.text.starts_with("The all-gather output is held by record_stream on the all-gather stream"));
      CHECK(cause.bytes == e->pending_free_peak);
      for (const HeldBlock& block : e->pending_peak.pending) CHECK(block.behind.starts_with("all-gather of "));
    }
}

TEST_CASE("the most that waits is peak active less peak allocated", "[reference][explain]") {
  const auto folder = test::truth_folder("runs");
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
  for (const std::string& stem : recordings(*folder)) {
    const std::string name = fs::path(stem).filename().string();
    if (name != "mlp_record1" && name != "mlp8_stacks") continue;
    INFO(stem);
    const auto e = explain(import_stem(stem).run, {});
    REQUIRE(e);
    const auto wanted = static_cast<double>(e->peaks.active - e->peaks.allocated);
    CHECK(static_cast<double>(e->pending_free_peak) == Approx(wanted).epsilon(0.05));
  }
}

const sim::Remedy* remedy_of(const sim::Remedies& remedies, const std::string& setting) {
  for (const sim::Remedy& remedy : remedies.useful)
    if (remedy.setting == setting) return &remedy;
  return nullptr;
}

TEST_CASE("the remedies of pytorch#147168 are simulated; the async case comes out as it was measured",
          "[reference][explain]") {
  // What the same model took without record_stream, MiB: mlp_async1's last step.
  const std::map<std::string, Bytes> measured{{"mlp_record1", 6470 * kMiB}};
  const auto folder = test::truth_folder("runs");
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
  for (const std::string& stem : recordings(*folder)) {
    const std::string name = fs::path(stem).filename().string();
    if (name != "mlp_record1" && name != "mlp8_stacks") continue;
    INFO(stem);
    const traces::Imported imported = import_stem(stem);
    REQUIRE(imported.workload);
    sim::OneWorkload source(std::make_shared<const Workload>(*imported.workload));
    const auto machine = sim::builtin_profile("h200");
    REQUIRE(machine);
    const auto remedies = sim::find_remedies(source, *machine, {.settings = imported.run.settings, .threads = 2});
    INFO((remedies ? "" : remedies.error().text()));
    REQUIRE(remedies);
    const sim::Remedy* stash = remedy_of(*remedies, "--release stash");
    const sim::Remedy* sync = remedy_of(*remedies, "--no-unshard-async --release stash");
    const sim::Remedy* compute = remedy_of(*remedies, "--no-unshard-async --release stash --gather-alloc compute");
    REQUIRE(stash != nullptr);
    REQUIRE(sync != nullptr);
    REQUIRE(compute != nullptr);
    for (const sim::Remedy* remedy : {stash, sync, compute}) {
      CHECK_FALSE(remedy->pytorch.empty());
      CHECK(remedy->peaks.reserved * 2 < remedies->before.reserved);
    }
    if (measured.contains(name)) CHECK(stash->peaks.reserved == measured.at(name));
  }
}

}  // namespace
}  // namespace foreshard

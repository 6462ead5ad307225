// On the bundled recordings, with what they measured written beside them as a folder of reference runs.
#include "accuracy/accuracy.hpp"

#include <fmt/format.h>

#include <cmath>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace foreshard;
using namespace foreshard::accuracy;

namespace {

namespace fs = std::filesystem;

/// As traces/samples/measured.csv has them.
std::string measured_json(double ms, Bytes requested, Bytes allocated, Bytes active, Bytes reserved,
                          const std::string& model = "mlp") {
  return fmt::format(
      R"({{"config": {{"model": "{}", "dim": 10240, "layers": 4}},
          "step_ms": [99, 98, {}, {}, {}, {}], "memory_steps": [{{}}, {{
            "requested_bytes.all.peak": {}, "allocated_bytes.all.peak": {}, "active_bytes.all.peak": {},
            "reserved_bytes.all.peak": {}}}]}})",
      model, ms, ms - 0.1, ms + 0.1, ms, requested, allocated, active, reserved);
}

struct Runs {
  test::TemporaryFolder folder;
  Runs() {
    fs::create_directories(folder.file("runs"));
    add("mlp_implicit", measured_json(32.106, 6360059945, 6360062464, 6360062464, 7625244672));
    add("mlp_record1", measured_json(33.525, 15587692585, 6360062464, 15587695104, 16364077056));
  }
  void add(const std::string& name, const std::string& json) const {
    for (const char* suffix : {".pickle.xz", ".trace.json.xz", ".about.json"})
      fs::copy_file("traces/samples/" + name + suffix, folder.file("runs/" + name + suffix),
                    fs::copy_options::overwrite_existing);
    folder.write("runs/" + name + ".json", json);
  }
};

const sim::MachineProfile& machine() {
  static const sim::MachineProfile kMachine = sim::builtin_profile("h200").value();
  return kMachine;
}

}  // namespace

TEST_CASE("runs are held against themselves, their siblings and their models") {
  const Runs runs;
  runs.folder.write("collectives", "");  // not a folder: no collectives
  const auto accuracy = measure_accuracy(machine(), {runs.folder.path(), 2, {}});
  INFO((accuracy ? std::string() : accuracy.error().text()));
  REQUIRE(accuracy);
  REQUIRE(accuracy->rows.size() == 6);
  CHECK(accuracy->collectives.empty());
  const AccuracyRow& itself = accuracy->rows[0];
  CHECK(itself.from == AccuracyRow::From::itself);
  CHECK(itself.run == "mlp_implicit");
  CHECK(itself.exact());
  const AccuracyRow& sibling = accuracy->rows[2];
  CHECK(sibling.source == "mlp_implicit");
  CHECK(sibling.run == "mlp_record1");
  CHECK(sibling.record_stream);
  CHECK(std::abs(sibling.error()) < 0.05);
  const AccuracyRow& model = accuracy->rows[4];
  CHECK(model.from == AccuracyRow::From::model);
  CHECK(model.refused.empty());
  CHECK(model.peaks.requested == 6360059945);

  const auto again = measure_accuracy(machine(), {runs.folder.path(), 1, {}});
  REQUIRE(again);
  for (std::size_t i = 0; i < accuracy->rows.size(); ++i) {
    CHECK(accuracy->rows[i].step_ms == again->rows[i].step_ms);
    CHECK(accuracy->rows[i].peaks == again->rows[i].peaks);
  }
}

TEST_CASE("what a run measured is read strictly") {
  const Runs runs;
  const std::string folder = runs.folder.file("runs");
  CHECK(read_measured(folder, "mlp_implicit")->median_ms == Approx(32.106));
  const auto broken = [&](const std::string& json) {
    runs.folder.write("runs/mlp_implicit.json", json);
    const auto measured = read_measured(folder, "mlp_implicit");
    REQUIRE_FALSE(measured);
    return measured.error().where;
  };
  CHECK(broken("{}").ends_with("step_ms"));
  CHECK(broken(R"({"step_ms": [1, 2, 3]})").ends_with("step_ms"));
  CHECK(broken(R"({"step_ms": [1, 2, 3, 4, 5, "6"]})").ends_with("step_ms"));
  CHECK(broken(R"({"step_ms": [1, 2, 3, 4, 5, 6], "memory_steps": []})").ends_with("memory_steps"));
  CHECK(broken(R"({"step_ms": [1, 2, 3, 4, 5, 6], "memory_steps": [{}]})").ends_with("requested_bytes.all.peak"));
  CHECK(broken("[").find("mlp_implicit.json") != std::string::npos);
}

TEST_CASE("a run without a model that is known has a row that says so") {
  const Runs runs;
  runs.add("mlp_implicit", measured_json(32.106, 1, 2, 3, 4, "something-else"));
  const auto run = read_reference_run(runs.folder.file("runs"), "mlp_implicit");
  REQUIRE(run);
  CHECK_FALSE(run->model);
  CHECK_FALSE(predict_from_model(*run, machine()).refused.empty());
}

TEST_CASE("a folder without runs is refused") {
  const test::TemporaryFolder folder;
  CHECK_FALSE(measure_accuracy(machine(), {folder.path(), 1, {}}));
  fs::create_directories(folder.file("runs"));
  CHECK(measure_accuracy(machine(), {folder.path(), 1, {}}).error().what.find("no runs") != std::string::npos);
}

TEST_CASE("collectives of a folder against their prices") {
  const test::TemporaryFolder folder;
  folder.write("comm_a.json",
               R"([{"variant": "nccl", "world": 4, "op": "all_gather", "total_bytes": 67108864, "us": 190},
    {"variant": "nccl", "world": 4, "op": "contention", "compute": "gemm8192", "comm": "all_gather",
     "compute_isolated_us": 253.8, "compute_under_comm_us": 305.3, "comm_isolated_us": 1249.1,
     "comm_under_compute_us": 2124.0}])");
  folder.write("limits.json", "not read");
  folder.write("own.jsonl", R"({"variant": "ag:nccl", "world": 4, "op": "all_gather", "total_bytes": 1048576, "us": 14}
{"variant": "ag:own", "world": 4, "op": "all_gather", "total_bytes": 1048576, "us": 10}
)");
  const auto rows = check_collectives(folder.path(), machine());
  INFO((rows ? "" : rows.error().text()));
  REQUIRE(rows);
  REQUIRE(rows->size() == 2);  // contention is no row of these, and foreshard's own collectives have no price
  CHECK((*rows)[0].check.request.bytes == 64 * kMiB);
  CHECK((*rows)[0].by_pytorch);
  CHECK(std::abs((*rows)[0].check.error()) < 0.1);
  CHECK_FALSE((*rows)[1].by_pytorch);
  folder.write("comm_b.json", R"([{"variant": "what", "world": 4, "op": "all_gather", "total_bytes": 1, "us": 1}])");
  CHECK_FALSE(check_collectives(folder.path(), machine()));
}

TEST_CASE("rankings count settings that really differ") {
  Rankings rankings;
  const auto run = [](double ms) { return MeasuredRun{{}, ms, ms - 0.1, ms + 0.1, {}}; };
  rankings.add("a", 10, run(10));
  rankings.add("a", 12, run(11));   // right
  rankings.add("a", 9, run(10.1));  // not apart from the first; right against the second
  rankings.add("a", 20, run(5));    // wrong against all three
  rankings.add("b", 1, run(100));   // another recording
  CHECK(rankings.right() == 2);
  CHECK(rankings.wrong() == 3);
}

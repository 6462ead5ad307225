// What allocation retries take of a planned step.
#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace foreshard::sim {
namespace {

/// llama-1b on one GPU. Four samples of 928 tokens fit 29 GiB by retries.
struct Tight {
  MachineProfile machine = builtin_profile("h200").value();
  Workload workload;
  PredictRequest request;

  explicit Tight(std::uint32_t batch = 4, std::uint32_t seq = 928, double limit_gib = 29) {
    Settings settings;
    settings.batch = batch;
    settings.seq = seq;
    settings.param_dtype = DType::bfloat16;
    settings.reduce_dtype = DType::float32;
    settings.root_reshard_explicit = false;
    workload = generate(*preset("llama-1b"), settings, machine.host_calls, machine.gpu(), true).value();
    request.settings = workload.settings;
    request.memory_limit = static_cast<Bytes>(limit_gib * static_cast<double>(kGiB));
  }
  [[nodiscard]] Prediction plan() const { return predict(workload, machine, request).value(); }
};

TEST_CASE("retries are in the step, and what they take stands beside it") {
  const Tight tight;
  const Prediction with = tight.plan();
  REQUIRE(with.step_num_alloc_retries > 0);
  CHECK(with.retries_ms > 0);
  Tight roomy = tight;
  roomy.request.memory_limit.reset();
  const Prediction without = roomy.plan();
  REQUIRE(without.step_num_alloc_retries == 0);
  CHECK(without.retries_ms == 0);
  CHECK(with.step_ms - with.retries_ms == Approx(without.step_ms).epsilon(0.005));
  CHECK(with.valid == without.valid);
  CHECK(with.compute_ms + with.exposed_communication_ms + with.idle_ms == Approx(with.step_ms));
  const auto rests = [](const Prediction& p) {
    return std::ranges::any_of(p.interval.rests_on, [](const RestsOn& one) { return one.basis == Basis::retries; });
  };
  CHECK(rests(with));
  CHECK_FALSE(rests(without));
  CHECK(with.interval.half_width(with.step_ms) > without.interval.half_width(without.step_ms));
  CHECK(with.difference > without.difference);
  Tight alone = tight;
  alone.request.step_alone = true;
  CHECK(alone.plan().step_ms == with.step_ms);
}

TEST_CASE("a driver that answers at once still makes the host wait for the GPU; dearer calls make a step longer") {
  Tight tight;
  const Prediction as_measured = tight.plan();
  tight.machine.driver_calls = {};
  const Prediction at_once = tight.plan();
  CHECK(at_once.retries_ms < as_measured.retries_ms);
  tight.machine.driver_calls = builtin_profile("h200")->driver_calls;
  tight.machine.driver_calls.free = tight.machine.driver_calls.free + Nanoseconds{1'000'000};
  const Prediction dearer = tight.plan();
  CHECK(dearer.step_num_alloc_retries == as_measured.step_num_alloc_retries);
  CHECK(dearer.retries_ms > as_measured.retries_ms + 10);
}

TEST_CASE("segments that garbage collection gives back take their time without a retry") {
  Tight tight(4, 928, 34);
  tight.request.settings.alloc_conf = "garbage_collection_threshold:0.6";
  const Prediction p = tight.plan();
  CHECK((p.retries_ms > 0) ==
        std::ranges::any_of(p.interval.rests_on, [](const RestsOn& one) { return one.basis == Basis::retries; }));
}

/// A line of docs/data/retry_rows.csv.
struct Row {
  std::uint32_t batch = 0;
  std::uint32_t seq = 0;
  double limit_gib = 0;
  double retries = 0;  ///< a step, a mean
  double taken_ms = 0;
  std::string alloc_conf;
};

std::vector<Row> measured_rows() {
  std::vector<Row> out;
  std::istringstream lines(foreshard::test::file_bytes("docs/data/retry_rows.csv"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#") || line.starts_with("visit")) continue;
    std::istringstream cells(line);
    std::vector<std::string> row;
    for (std::string cell; std::getline(cells, cell, ',');) row.push_back(cell);
    row.resize(row.size() + (line.ends_with(',') ? 1 : 0));  // no alloc_conf
    REQUIRE(row.size() == 9);
    out.push_back({static_cast<std::uint32_t>(std::stoul(row[1])), static_cast<std::uint32_t>(std::stoul(row[2])),
                   std::stod(row[3]), std::stod(row[4]), std::stod(row[6]) - std::stod(row[7]), row[8]});
  }
  return out;
}

TEST_CASE("nine of ten measured prices of retries lie within the width, and it is no wider than that takes") {
  const std::vector<Row> rows = measured_rows();
  REQUIRE(rows.size() >= 21);
  const double width = builtin_profile("h200")->prediction.retries;
  std::vector<double> errors;  // logarithms; of what took no time none is close
  std::size_t equal = 0;
  for (const Row& row : rows) {
    Tight tight(row.batch, row.seq, row.limit_gib);
    tight.request.settings.alloc_conf = row.alloc_conf;
    const Prediction p = tight.plan();
    CAPTURE(row.batch, row.seq, row.limit_gib, row.taken_ms, p.retries_ms);
    REQUIRE(p.retries_ms > 0);
    CHECK(std::abs(static_cast<double>(p.step_num_alloc_retries) - row.retries) <= 1);  // some steps take turns
    if (static_cast<double>(p.step_num_alloc_retries) == row.retries) ++equal;
    errors.push_back(row.taken_ms > 0 ? std::abs(std::log(row.taken_ms / p.retries_ms)) : HUGE_VAL);
  }
  CHECK(equal * 10 >= rows.size() * 8);
  std::ranges::sort(errors);
  const auto within = std::ranges::count_if(errors, [&](double error) { return error <= width; });
  CHECK(within * 10 >= static_cast<std::ptrdiff_t>(rows.size()) * 9);
  CHECK(width <= errors[static_cast<std::size_t>(within) - 1] + 0.02);
}

}  // namespace
}  // namespace foreshard::sim

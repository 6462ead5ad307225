#include <rapidcheck.h>

#include <array>
#include <chrono>

#include "tests/catch.hpp"
#include "tests/traces/workload_file/workload_sample.hpp"
#include "traces/workload_file/workload_file.hpp"

namespace foreshard::traces {
namespace {

TEST_CASE("a workload reads back equal in every field", "[workload_file][property]") {
  CHECK(rc::check("from_json(to_json(w)) == w", [](std::uint64_t seed) {
    const std::size_t ops = *rc::gen::inRange<std::size_t>(0, 60);
    const Workload workload = test::random_workload(seed, ops);
    const std::string text = to_json(workload);
    const Result<Workload> read = from_json(text, "w.json");
    if (!read) RC_FAIL(read.error().text());
    RC_ASSERT(test::difference(workload, *read) == "");
    RC_ASSERT(to_json(*read) == text);
  }));
  CHECK(test::difference(test::random_workload(1, 9), test::random_workload(2, 9)) != "");
}

/// As a capture of 16 layers has them: setup and two steps of 3500 ops with the fields of their kind.
Workload captured_like() {
  Workload out;
  out.sm_count = 132;
  out.units.resize(18);
  out.has_timing = true;
  for (int i = 0; i < 200; ++i)
    out.labels.intern("void at::native::vectorized_elementwise_kernel<" + std::to_string(i));
  out.steps.resize(2);
  for (Program* program : {&out.setup, &out.steps[0], &out.steps[1]})
    for (std::uint32_t i = 0; i < 3500; ++i) {
      Op& op = program->ops.emplace_back();
      op.kind = std::array{OpKind::alloc, OpKind::kernel, OpKind::free, OpKind::kernel}[i % 4];
      op.host_before = {static_cast<std::int64_t>(i) * 7919 % 50000};
      op.label = LabelId{i % 200};
      if (op.kind == OpKind::kernel) op.kernel = {KernelClass::gemm, {i * 100}, 0, 1.0 + i / 7e4, op.label};
      if (op.kind != OpKind::kernel) op.tensor = TensorId{i / 4};
      op.size.bytes = op.kind == OpKind::alloc ? 4096 * i : 0;
      op.category = op.kind == OpKind::alloc ? MemoryCategory::activations : MemoryCategory::other;
    }
  return out;
}

TEST_CASE("a capture's ten thousand ops are read in a few tens of milliseconds", "[workload_file]") {
  const Workload workload = captured_like();
  const auto begin = std::chrono::steady_clock::now();
  const std::string text = to_json(workload);
  const auto written = std::chrono::steady_clock::now();
  const Result<Workload> read = from_json(text, "w.json");
  const auto end = std::chrono::steady_clock::now();
  REQUIRE(read);
  CHECK(test::difference(workload, *read) == "");
  const auto ms = [](auto from, auto to) { return std::chrono::duration<double, std::milli>(to - from).count(); };
  WARN("10500 ops, " << text.size() << " bytes: write " << ms(begin, written) << " ms, read " << ms(written, end)
                     << " ms");
  CHECK(ms(written, end) < 2000);  // a loaded machine and a build without optimisation included
}

}  // namespace
}  // namespace foreshard::traces

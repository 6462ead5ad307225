// A step's least against sums by hand, and against the steps that are planned.

#include "sim/roofline/roofline.hpp"

#include "core/kernel/kernel_cost.hpp"
#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/link_load/link_loads.hpp"
#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

const RoofRow& row_of(const Roofline& roofline, RoofKind kind) {
  for (const RoofRow& row : roofline.rows)
    if (row.kind == kind) return row;
  throw std::runtime_error("no such row");
}

Op kernel(Labels& labels, const char* label, KernelWork work) {
  Op op;
  op.kernel = work;
  op.kernel.label = labels.intern(label);
  return op;
}

}  // namespace

TEST_CASE("a step's least is its work over the machine's rates") {
  const MachineProfile machine = builtin_profile("h200").value();
  Workload workload;
  Run run;
  Program program;
  program.ops.push_back(kernel(workload.labels, "aten::mm", gemm_cost(4096, 4096, 4096, DType::bfloat16)));
  program.ops.push_back(kernel(workload.labels, "aten::mm", gemm_cost(1024, 1024, 1024, DType::float32)));
  KernelWork copy;
  copy.bytes = 1'000'000'000;
  copy.math.m = 1000;
  program.ops.push_back(kernel(workload.labels, "aten::copy_", copy));
  workload.steps.push_back(program);
  SectionCost optimizer;
  optimizer.section = Section::optimizer;
  optimizer.items.emplace_back();
  optimizer.items.back().bytes = copy.bytes;
  optimizer.items.back().label = workload.labels.intern("aten::_fused_adam_");
  workload.sections.push_back(optimizer);
  const auto put = [&](const char* label, std::uint32_t stream, std::int64_t begin, std::int64_t end) {
    DeviceOpRecord op;
    op.stream = StreamId{stream};
    op.label = run.labels.intern(label);
    op.start = {begin};
    op.end = {end};
    run.device_ops.push_back(op);
  };
  put("aten::mm", 0, 0, 700'000);
  put("aten::copy_", 0, 700'000, 1'000'000);
  put("aten::_fused_adam_", 6, 100'000, 500'000);
  put("aten::mm", 0, 2'000'000, 3'000'000);  // of the next step
  put("aten::copy_", 3, 100'000, 900'000);   // FSDP2's cast of gradients
  TimeExplanation step;
  step.end = {1'500'000};
  const Roofline found = roofline(run, workload, {}, step, machine).value();
  const double gemms =
      2 * 4096. * 4096 * 4096 / machine.rates.gemm_bf16 + 2 * 1024. * 1024 * 1024 / machine.rates.gemm_fp32;
  const double bytes = 1e9 / machine.rates.hbm;
  CHECK(row_of(found, RoofKind::gemm).least.us() == Approx(gemms * 1e6).epsilon(1e-4));
  CHECK(row_of(found, RoofKind::gemm).takes.count == 700'000);
  CHECK(row_of(found, RoofKind::bytes).least.us() == Approx(bytes * 1e6).epsilon(1e-4));
  CHECK(row_of(found, RoofKind::bytes).takes.count == 300'000);
  CHECK(row_of(found, RoofKind::optimizer).beside_compute);
  CHECK(found.compute.us() == Approx((gemms + bytes) * 1e6).epsilon(1e-4));
  CHECK(found.least == found.compute);
  CHECK_FALSE(found.longest);
}

TEST_CASE("recorded kernels without shapes have no roof") {
  Workload workload;
  Program program;
  KernelWork recorded;
  recorded.work = {1000};
  program.ops.push_back(kernel(workload.labels, "aten::mm", recorded));
  workload.steps.push_back(program);
  CHECK_FALSE(roofline(Run{}, workload, {}, TimeExplanation{}, builtin_profile("h200").value()));
}

TEST_CASE("no planned step is below its roof") {
  const MachineProfile machine = builtin_profile("h200").value();
  for (const char* model : {"llama-1b", "llama-8b"})
    for (const std::uint32_t seq : {512U, 4096U}) {
      Settings settings;
      settings.gpus = 8;
      settings.seq = seq;
      settings.param_dtype = DType::bfloat16;
      const Workload workload = generate(*preset(model), settings, machine.host_calls, machine.gpu(), true).value();
      PredictRequest request;
      request.settings = workload.settings;
      const auto planned = predict(workload, machine, request);
      INFO((planned ? "" : planned.error().text()));
      REQUIRE(planned);
      const Prediction& plan = *planned;
      const TimeExplanation step = explain_time(plan.run).value();
      const Roofline found =
          roofline(plan.run, workload, link_loads(plan.run, &workload, machine), step, machine).value();
      CAPTURE(model, seq, found.least.ms(), step.length().ms());
      CHECK(found.least <= step.length());
      CHECK(found.least.ms() > 0.3 * step.length().ms());
    }
}

}  // namespace foreshard::sim

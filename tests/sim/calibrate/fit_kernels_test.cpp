// Times of single kernels become families and factors of a profile, which gives them back.
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/workload/workload_names.hpp"
#include "sim/collectives/modelled_collectives.hpp"
#include "sim/compute/price_kernel.hpp"
#include "tests/sim/calibrate/fits.hpp"

namespace foreshard::sim {
namespace {

KernelMath elements(MemoryAccess access, DType dtype = DType::bfloat16) {
  KernelMath math;
  math.access = access;
  math.dtype = dtype;
  return math;
}

KernelMath gemm(std::uint64_t m, std::uint64_t n, std::uint64_t k) {
  return {KernelMath::Kind::gemm, DType::bfloat16, false, 1, m, n, k};
}

Measurements of(std::vector<KernelSample> kernels) {
  Measurements out;
  out.path = "made up";
  out.format = "foreshard probe";
  out.kernels = std::move(kernels);
  return out;
}

MachineFit fitted(std::vector<KernelSample> kernels) {
  return fit_of(of(std::move(kernels)), {"mine", "h200", {}});
}

double us(const MachineProfile& machine, const KernelMath& math, Bytes bytes, std::string_view label) {
  return price_kernel(machine, {KernelClass::memory_bound, {}, bytes, 0, {}, math}, label).time.us();
}

const KernelMath kRows = elements(MemoryAccess::row);

TEST_CASE("a kernel of a measured name costs what the name's kernels took") {
  const MachineProfile machine = read(fitted(
      {{"own::norm", kRows, 4 * kMiB, 5}, {"own::norm", kRows, 64 * kMiB, 40}, {"own::norm", kRows, 64 * kMiB, 42}}));
  CHECK(us(machine, kRows, 4 * kMiB, "own::norm") == Approx(5).epsilon(0.001));
  CHECK(us(machine, kRows, 64 * kMiB, "own::norm") == Approx(41).epsilon(0.005));
  CHECK(us(machine, kRows, 16 * kMiB, "own::norm") == Approx(std::sqrt(5.0 * 41)).epsilon(0.005));
  CHECK(us(machine, kRows, 256 * kMiB, "own::norm") == Approx(164).epsilon(0.005));
  const double launch = machine.compute.memory[static_cast<std::size_t>(MemoryAccess::row)].launch_us;
  CHECK(us(machine, kRows, kMiB, "own::norm") == Approx(launch + (5 - launch) / 4).epsilon(0.001));
}

TEST_CASE("other names, accesses and sizes of elements keep the model's price") {
  const MachineProfile machine = read(fitted({{"own::norm", kRows, 64 * kMiB, 400}}));
  const MachineProfile base = *builtin_profile("h200");
  const auto same = [&](const KernelMath& math, std::string_view label) {
    return us(machine, math, 64 * kMiB, label) == us(base, math, 64 * kMiB, {});
  };
  CHECK(same(kRows, "other"));
  CHECK(same(kRows, ""));
  CHECK(same(elements(MemoryAccess::column), "own::norm"));
  CHECK(same(elements(MemoryAccess::row, DType::float32), "own::norm"));
  CHECK(us(machine, elements(MemoryAccess::row, DType::float16), 64 * kMiB, "own::norm") == Approx(400));
}

TEST_CASE("measured shapes correct the model's time near them, and not far away") {
  const MachineProfile base = *builtin_profile("h200");
  const double modelled = us(base, gemm(2048, 4096, 4096), 0, {});
  const MachineFit fit = fitted({{"aten::mm", gemm(2048, 4096, 4096), 0, 1.5 * modelled},
                                 {"aten::mm", gemm(2048, 4096, 4096), 0, 1.5 * modelled},
                                 {"aten::mm", gemm(2048, 4096, 4096), 0, 9 * modelled}});
  const MachineProfile machine = read(fit);
  REQUIRE(machine.compute.shapes.size() == 1);
  CHECK(machine.compute.shapes[0].points.size() == 1);
  CHECK(us(machine, gemm(2048, 4096, 4096), 0, {}) == Approx(1.5 * modelled).epsilon(0.005));
  const auto factor = [&](const KernelMath& math) { return us(machine, math, 0, {}) / us(base, math, 0, {}); };
  CHECK(factor(gemm(4096, 4096, 4096)) == Approx(1.44).epsilon(0.01));
  CHECK(factor(gemm(16, 64, 128)) < 1.05);
  KernelMath vectors = gemm(2048, 4096, 4096);
  vectors.dtype = DType::float32;
  CHECK(factor(vectors) == 1);
}

TEST_CASE("a fit says how well its kernels hold together, and the same samples give the same profile") {
  const std::vector<KernelSample> samples{{"own::norm", kRows, 4 * kMiB, 5},
                                          {"own::norm", kRows, 5 * kMiB, 6},
                                          {"aten::mm", gemm(512, 512, 512), 0, 4},
                                          {"aten::mm", gemm(1024, 512, 512), 0, 5}};
  const MachineFit fit = fitted(samples);
  REQUIRE(fit.residuals.size() == 2);
  CHECK(fit.residuals[0].points == 2);
  CHECK(fit.residuals[0].worst < 0.05);
  CHECK(fit.residuals[1].points == 2);
  auto turned = samples;
  std::reverse(turned.begin(), turned.end());
  CHECK(fitted(turned).json == fit.json);
  CHECK(nlohmann::json::parse(fit.json)["compute"]["kernels"][0]["source"].get<std::string>().find("2 kernels") !=
        std::string::npos);
}

TEST_CASE("what kernels lose while SMs are held comes back with their price") {
  const std::vector<KernelSample> samples{{"own::norm", kRows, 4 * kMiB, 5, 6},
                                          {"own::norm", kRows, 64 * kMiB, 60, 59},
                                          {"aten::mm", gemm(512, 512, 512), 0, 4, 7.6},
                                          {"aten::mm", gemm(8192, 512, 512), 0, 20}};
  const MachineProfile machine = read(fitted(samples));
  const auto held = [&](const KernelMath& math, Bytes bytes, std::string_view label) {
    return price_kernel(machine, {KernelClass::memory_bound, {}, bytes, 0, {}, math}, label).held;
  };
  CHECK(held(kRows, 3 * kMiB, "own::norm") == Approx(1.2));
  CHECK(held(kRows, 80 * kMiB, "own::norm") == 1);
  CHECK(held(kRows, 4 * kMiB, "own::other") == 0);
  CHECK(held(gemm(512, 512, 512), 0, {}) == Approx(1.9));
  CHECK(held(gemm(1024, 512, 512), 0, {}) == Approx(1.9));  // the only shape that says it
  CHECK(read(fitted({samples[3]})).compute.shapes[0].points[0].held == 0);
}

TEST_CASE("what kernels lose to CTAs that stream memory is no less than to idle ones, and optional") {
  const std::vector<KernelSample> samples{{"own::norm", kRows, 4 * kMiB, 5, 6, 8},
                                          {"own::norm", kRows, 64 * kMiB, 60, 72, 66},
                                          {"aten::mm", gemm(512, 512, 512), 0, 4, 5, 7},
                                          {"aten::mm", gemm(8192, 512, 512), 0, 20, 22}};
  const MachineProfile machine = read(fitted(samples));
  const auto price = [&](const KernelMath& math, Bytes bytes, std::string_view label) {
    return price_kernel(machine, {KernelClass::memory_bound, {}, bytes, 0, {}, math}, label);
  };
  CHECK(price(kRows, 4 * kMiB, "own::norm").held == Approx(1.2));
  CHECK(price(kRows, 4 * kMiB, "own::norm").streamed == Approx(1.6));
  CHECK(price(kRows, 64 * kMiB, "own::norm").streamed == Approx(1.2));
  CHECK(price(gemm(512, 512, 512), 0, {}).streamed == Approx(1.75));
  CHECK(price(gemm(8192, 512, 512), 0, {}).held == Approx(1.1).epsilon(0.001));
  CHECK(read(fitted({samples[3]})).compute.shapes[0].points[0].streamed == 0);
}

TEST_CASE("reductions into a wider dtype have a table of their own") {
  Measurements measured = of({});
  for (const bool upcasts : {false, true})
    for (const Bytes bytes : {16 * kMiB, 256 * kMiB})
      measured.collectives.push_back({CollectiveKind::reduce_scatter, Transport::pull_reduce, 2, 2, bytes,
                                      (upcasts ? 2 : 1) * (20 + static_cast<double>(bytes) / 4e5), upcasts});
  const auto fit = fit_machine(std::span(&measured, 1), {"mine", "h200", {}});
  REQUIRE(fit);
  const MachineProfile machine = read(*fit);
  const ModelledCollectives prices(machine);
  CollectiveRequest request{CollectiveKind::reduce_scatter, Transport::pull_reduce, 16 * kMiB, 2, 2};
  const double plain = prices.price(request).time.us();
  request.upcasts = true;
  CHECK(prices.price(request).time.us() == Approx(2 * plain).epsilon(0.001));
  // Others have none: theirs is that of what is there.
  CollectiveRequest ring{CollectiveKind::reduce_scatter, Transport::nccl, 64 * kMiB, 4, 4};
  const double usual = prices.price(ring).time.us();
  ring.upcasts = true;
  CHECK(prices.price(ring).time.us() == usual);
}

TEST_CASE("sums of float32 have a table of their own, and a profile keeps what their channels add") {
  MachineProfile truth = *builtin_profile("h200");
  truth.collectives.clear();
  truth.links.float32_sums = 1.4;
  Measurements measured = of({});
  const auto request = [](DType dtype, std::uint32_t ranks, Bytes bytes) {
    CollectiveRequest out{CollectiveKind::reduce_scatter, Transport::nccl, bytes, ranks, ranks};
    out.dtype = dtype;
    return out;
  };
  for (const DType dtype : {DType::bfloat16, DType::float32})
    for (const Bytes bytes : {16 * kMiB, 64 * kMiB, 256 * kMiB, 1024 * kMiB})
      measured.collectives.push_back({CollectiveKind::reduce_scatter, Transport::nccl, 2, 2, bytes,
                                      ModelledCollectives(truth).price(request(dtype, 2, bytes)).time.us(), false,
                                      dtype});
  const auto fit = fit_machine(std::span(&measured, 1), {"mine", "h200", {}});
  REQUIRE(fit);
  const MachineProfile machine = read(*fit);
  CHECK(machine.links.float32_sums == Approx(1.4).epsilon(0.01));
  for (const DType dtype : {DType::bfloat16, DType::float32})
    CHECK(ModelledCollectives(machine).price(request(dtype, 2, 64 * kMiB)).time ==
          ModelledCollectives(truth).price(request(dtype, 2, 64 * kMiB)).time);
}

TEST_CASE("residuals of tables are those of the tables that were measured") {
  Measurements measured = of({});
  for (const Bytes bytes : {kMiB, 16 * kMiB, 256 * kMiB})
    measured.collectives.push_back(
        {CollectiveKind::all_gather, Transport::nccl, 2, 2, bytes, 20 + static_cast<double>(bytes) / 4e5});
  const auto fit = fit_machine(std::span(&measured, 1), {"mine", "h200", {}});
  REQUIRE(fit);
  for (const Residual& residual : fit->residuals) CHECK(residual.what.find("4 ranks") == std::string::npos);
}

}  // namespace
}  // namespace foreshard::sim

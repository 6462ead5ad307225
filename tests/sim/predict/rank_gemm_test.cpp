// Ranks that multiply more matrices in front of each block's forward.
#include <algorithm>

#include "core/kernel/kernel_cost.hpp"
#include "core/models/extra_gemms.hpp"
#include "sim/compute/prices.hpp"
#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"
#include "tests/sim/predict/llama_on_nodes.hpp"

namespace foreshard::sim {
namespace {

constexpr ExtraGemms kTwo{8192, 8192, 8192, 2};
constexpr std::size_t kGemmLayers = 16;

Prediction plan_with_gemms(const std::vector<RankDifference>& ranks, std::uint32_t nodes = 1,
                           std::uint32_t replicate = 1) {
  test::PlannedLlama job = test::llama_on_nodes("h200", nodes, replicate, 4);
  job.request.differences.ranks = ranks;
  auto p = job.plan();
  INFO((p ? "" : p.error().text()));
  REQUIRE(p);
  return std::move(*p);
}

double one_ms(const ExtraGemms& gemms) {
  return price(*builtin_profile("h200"), gemm_cost(gemms.m, gemms.n, gemms.k, DType::bfloat16)).ms();
}

/// Places of the extra products' kernels.
std::vector<std::size_t> places_in(const Program& program, const Labels& labels) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < program.ops.size(); ++i)
    if (program.ops[i].kind == OpKind::kernel && labels.text(program.ops[i].label).starts_with("extra mm"))
      out.push_back(i);
  return out;
}

}  // namespace

TEST_CASE("extra products are read as they are written, and nothing else is") {
  CHECK(parse_extra_gemms("8192x4096x2048*3").value() == ExtraGemms{8192, 4096, 2048, 3});
  CHECK(parse_extra_gemms("8x16x32").value() == ExtraGemms{8, 16, 32, 1});
  CHECK(parse_extra_gemms(text_of(kTwo)).value() == kTwo);
  for (const char* wrong : {"", "8", "8x8", "8x8x", "8x8x8*", "8x8x8*0", "0x8x8", "8x8x8 ", "8x8x8x8", "-8x8x8",
                            "1048577x8x8", "8x8x8*1001", "8X8X8", "99999999999x8x8"}) {
    INFO(wrong);
    CHECK_FALSE(parse_extra_gemms(wrong));
  }
}

TEST_CASE("extra products lie behind each block's pre-forward hook, each result freed behind its product") {
  const test::PlannedLlama job = test::llama_on_nodes("h200", 1, 1, 1);
  Workload workload = job.workload;
  const auto added = add_extra_gemms(workload, kTwo, job.machine.host_calls, 2, job.machine.gpu());
  REQUIRE(added);
  CHECK(*added == 2 * kGemmLayers);
  const Program& program = workload.steps.back();
  const auto places = places_in(program, workload.labels);
  REQUIRE(places.size() == 2 * kGemmLayers);
  for (std::size_t i = 0; i < places.size(); i += 2) {
    // hook; alloc, memset, product, free; alloc, …
    const Op& hook = program.ops[places[i] - 3];
    CHECK(hook.kind == OpKind::hook);
    CHECK(hook.hook == Hook::pre_forward);
    CHECK(hook.unit == UnitId{static_cast<std::uint32_t>(i / 2 + 1)});
    CHECK(places[i + 1] == places[i] + 4);
    const Op& result = program.ops[places[i] - 2];
    CHECK(result.kind == OpKind::alloc);
    CHECK(result.size.bytes == 2U * 8192 * 8192);
    CHECK(program.ops[places[i] + 1].kind == OpKind::free);
    CHECK(program.ops[places[i] + 1].tensor == result.tensor);
    Nanoseconds host;
    for (std::size_t k = places[i] - 2; k <= places[i]; ++k) host += program.ops[k].host_before;
    CHECK(host == job.machine.host_calls[HostCall::gemm].scaled(2));
  }
  std::vector<std::uint32_t> tensors;
  for (const Op& op : program.ops)
    if (op.kind == OpKind::alloc) tensors.push_back(op.tensor.value);
  std::sort(tensors.begin(), tensors.end());
  CHECK(std::adjacent_find(tensors.begin(), tensors.end()) == tensors.end());
}

TEST_CASE("a rank with extra products is waited for, by no more than they take, and is told with them") {
  const Prediction alike = plan_with_gemms({});
  const Prediction p = plan_with_gemms({{.rank = 5, .gemms = kTwo}});
  const double extra = 2 * kGemmLayers * one_ms(kTwo);
  CHECK(p.step_ms > alike.step_ms + 0.8 * extra);
  CHECK(p.step_ms < alike.step_ms + 1.1 * extra);
  REQUIRE(p.stragglers);
  REQUIRE(p.stragglers->late);
  CHECK(p.stragglers->late->rank == 5);
  REQUIRE(p.stragglers->late->own);
  CHECK(p.stragglers->late->own->extra == 2 * kGemmLayers);
  REQUIRE(p.ranks.size() == 2);  // folded: seven ranks are as one
  CHECK(p.ranks[0].count == 7);
  CHECK_FALSE(p.ranks[0].gemms);
  CHECK(p.ranks[1].first == 5);
  CHECK(p.ranks[1].gemms == kTwo);
  CHECK(p.ranks[1].own_program.empty());
  CHECK(p.peaks.reserved == alike.peaks.reserved);
}

TEST_CASE("more products cost more; those of all ranks fold into one; rank 0's results are in its peak") {
  const Prediction one = plan_with_gemms({{.rank = 5, .gemms = ExtraGemms{8192, 8192, 8192, 1}}});
  const Prediction two = plan_with_gemms({{.rank = 5, .gemms = kTwo}});
  CHECK(two.step_ms > one.step_ms);
  std::vector<RankDifference> all;
  for (std::uint32_t rank = 0; rank < 8; ++rank) all.push_back({.rank = rank, .gemms = kTwo});
  const Prediction each = plan_with_gemms(all);
  CHECK(each.ranks.size() == 1);
  CHECK(each.step_ms == Approx(two.step_ms).epsilon(0.02));
  const Prediction large = plan_with_gemms({{.rank = 5, .gemms = ExtraGemms{1U << 16U, 1U << 16U, 64, 1}}});
  CHECK(std::any_of(large.warnings.begin(), large.warnings.end(),
                    [](const std::string& w) { return w.starts_with("the peaks are rank 0's; rank 5 reserves"); }));
  // A result as large as the GPU's memory does not fit, on rank 0 or on another one.
  const ExtraGemms huge{1U << 18U, 1U << 19U, 8, 1};
  CHECK(plan_with_gemms({{.rank = 0, .gemms = huge}}).out_of_memory);
  CHECK(plan_with_gemms({{.rank = 3, .gemms = huge}}).out_of_memory);
}

TEST_CASE("in HSDP all replicas wait for the rank; a slow GPU multiplies slowly; each difference is told alone") {
  const Prediction p = plan_with_gemms({{.rank = 9, .gemms = kTwo}}, 2, 2);
  CHECK(p.step_ms > plan_with_gemms({}, 2, 2).step_ms + 30);
  const Prediction both = plan_with_gemms({{.rank = 5, .kernels = 1.2, .gemms = kTwo}});
  REQUIRE(both.rank_costs.size() == 2);
  CHECK(both.rank_costs[1].what == "rank 5's extra matrices");
  CHECK(both.rank_costs[1].alone_ms ==
        Approx(plan_with_gemms({{.rank = 5, .gemms = kTwo}}).step_ms - plan_with_gemms({}).step_ms).margin(1e-6));
}

TEST_CASE("without a block, or a host whose calls are known, there is nothing to put products in front of") {
  test::PlannedLlama job = test::llama_on_nodes("h200", 1, 1, 1);
  job.request.differences.ranks = {{.rank = 1, .gemms = kTwo}};
  job.machine.host_calls_known = false;
  const auto unknown = job.plan();
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().text().find("does not say what a product costs the host") != std::string::npos);
  Workload rootless = job.workload;
  rootless.units.resize(1);
  CHECK_FALSE(add_extra_gemms(rootless, kTwo, job.machine.host_calls, 1, job.machine.gpu()));
}

}  // namespace foreshard::sim

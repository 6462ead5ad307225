// FullyShard against the generator of fsdp2 semantics 8, over three whole steps of random settings and models.
#include <rapidcheck.h>

#include "tests/core/fsdp/fsdp_fixture.hpp"
#include "tests/core/fsdp/reference_generator.hpp"

namespace foreshard::test {
namespace {

std::vector<Unit> random_units() {
  std::vector<Unit> units;
  const int count = *rc::gen::inRange(2, 7);
  for (int u = 0; u < count; ++u) {
    Unit unit{u == 0 ? "" : fmt::format("layers.{}", u - 1), {}};
    const int parameters = *rc::gen::inRange(1, 5);
    for (int p = 0; p < parameters; ++p) {
      std::vector<std::int64_t> shape{*rc::gen::inRange<std::int64_t>(1, 40)};
      if (*rc::gen::arbitrary<bool>()) shape.push_back(*rc::gen::inRange<std::int64_t>(1, 2000));
      unit.parameters.push_back({fmt::format("p{}", p), shape, DType::float32});
    }
    units.push_back(unit);
  }
  return units;
}

Settings random_settings() {
  Settings s;
  s.gpus = *rc::gen::element(2U, 4U, 8U);
  if (s.gpus > 2 && *rc::gen::inRange(0, 4) == 0) s.replicate = 2;
  if (*rc::gen::arbitrary<bool>()) {
    s.param_dtype = DType::bfloat16;
    if (*rc::gen::inRange(0, 3) != 0) s.reduce_dtype = DType::float32;
  }
  if (*rc::gen::arbitrary<bool>()) s.forward_prefetch = *rc::gen::inRange(0U, 4U);
  if (*rc::gen::arbitrary<bool>()) s.backward_prefetch = *rc::gen::inRange(0U, 4U);
  s.unshard_async = *rc::gen::inRange(0, 3) == 0;
  if (*rc::gen::inRange(0, 4) == 0) s.gather_alloc = GatherAlloc::compute;
  if (*rc::gen::inRange(0, 4) == 0) s.all_gather = Transport::copy_engine;
  s.root_reshard_explicit = *rc::gen::arbitrary<bool>();
  switch (*rc::gen::inRange(0, 4)) {
    case 0:
      s.reshard_after_forward = {Reshard::Kind::never, 0};
      break;
    case 1: {
      if (s.shard_ranks() >= 4) s.reshard_after_forward = {Reshard::Kind::group, 2};
      break;
    }
    default:
      break;
  }
  s.offload = *rc::gen::inRange(0, 4) == 0;
  s.accumulate = *rc::gen::inRange(1U, 4U);
  s.accumulate_with_sync = *rc::gen::inRange(0, 3) == 0;
  return s;
}

/// Three steps, driven through both. The generator never sees FullyShard, nor the other way round.
void run_both(Bench& bench, ReferenceGenerator& expected) {
  const std::size_t count = bench.units.size();
  std::vector<std::size_t> order;
  std::vector<UnitId> ids;
  for (std::size_t g = 1; g <= count; ++g) {
    order.push_back(g % count);
    ids.push_back(UnitId{static_cast<std::uint32_t>(g % count)});
  }
  for (int step = 0; step < 3; ++step) {
    bench.fsdp.zero_grad(ids);
    expected.zero_grad(order);
    for (std::uint32_t m = 1; m <= bench.settings.accumulate; ++m) {
      const bool sync = bench.settings.accumulate_with_sync || m == bench.settings.accumulate;
      bench.fsdp.set_requires_gradient_sync(sync);
      bench.forward();
      expected.pre_forward(0);
      for (std::size_t g = 1; g < count; ++g) {
        expected.pre_forward(g);
        expected.post_forward(g);
      }
      expected.post_forward(0);
      bench.backward();
      expected.pre_backward(0);
      for (std::size_t g = count - 1; g >= 1; --g) {
        expected.pre_backward(g);
        expected.post(g, sync, true);
      }
      expected.final_callback(sync, true);
    }
  }
}

TEST_CASE("every allocation and free follows the generator") {
  const bool holds = rc::check("FullyShard is the generator of fsdp2 semantics 8", [] {
    Bench bench(random_settings(), random_units());
    ReferenceGenerator expected(bench.settings, bench.units);
    run_both(bench, expected);
    const std::vector<std::string>& got = bench.backend.memory();
    const std::vector<std::string>& want = expected.lines();
    const auto [a, b] = std::mismatch(got.begin(), got.end(), want.begin(), want.end());
    const auto at = static_cast<std::size_t>(a - got.begin());
    if (a != got.end() || b != want.end())
      RC_FAIL(fmt::format("line {}: got \"{}\", the generator has \"{}\" after \"{}\"", at,
                          a == got.end() ? "the end" : *a, b == want.end() ? "the end" : *b,
                          at == 0 ? "the start" : want[at - 1]));
    bench.zero_grad();
    RC_ASSERT(bench.backend.live() == 0U);
  });
  CHECK(holds);
}

}  // namespace
}  // namespace foreshard::test

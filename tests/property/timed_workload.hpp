// The small workload of tests/core/adapt with kernels, host times and section costs, so that a plan of it has
// times, and a random settings generator.
#pragma once

#include <rapidcheck.h>

#include "tests/core/adapt/small_program.hpp"

namespace foreshard::test {

/// A GEMM after each hook of a unit, a kernel in each section, host work before everything; what was measured without
/// a profiler is `measured_ms` a step.
inline Workload timed_workload(const Settings& settings, const std::vector<Unit>& units, double measured_ms = 0) {
  Workload w = small_workload(settings, units);
  for (Program& program : w.steps) {
    std::vector<Op> ops;
    for (Op op : program.ops) {
      op.host_before = {2'000};
      ops.push_back(op);
      const bool computes = op.kind == OpKind::hook && (op.hook == Hook::pre_forward || op.hook == Hook::pre_backward);
      if (!computes) continue;
      Op kernel;
      kernel.kind = OpKind::kernel;
      kernel.host_before = {5'000};
      kernel.kernel = {KernelClass::gemm, {op.hook == Hook::pre_forward ? 100'000 : 200'000}, 0, 0, {}};
      ops.push_back(kernel);
    }
    program.ops = std::move(ops);
  }
  for (std::uint32_t u = 0; u < w.units.size(); ++u) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const auto add = [&](Section section, std::vector<SectionItem> items) {
        w.sections.push_back({section, UnitId{u}, pass, std::move(items), {3'000}});
      };
      add(Section::all_gather, {{SectionRole::copy_in, {4'000}, {6'000}, KernelClass::gather_copy, 0, {}},
                                {SectionRole::collective, {8'000}, {}, KernelClass::memory_bound, 0, {}}});
      add(Section::copy_out, {{SectionRole::metadata_copy, {4'000}, {3'000}, KernelClass::memory_bound, 64, {}},
                              {SectionRole::split, {4'000}, {9'000}, KernelClass::memory_bound, 0, {}}});
      if (pass == Pass::backward)
        add(Section::reduce, {{SectionRole::metadata_copy, {4'000}, {3'000}, KernelClass::memory_bound, 64, {}},
                              {SectionRole::chunk_cat, {4'000}, {9'000}, KernelClass::memory_bound, 0, {}},
                              {SectionRole::collective, {8'000}, {}, KernelClass::memory_bound, 0, {}},
                              {SectionRole::all_reduce, {8'000}, {}, KernelClass::memory_bound, 0, {}}});
    }
  }
  w.sections.push_back({Section::optimizer,
                        kRootUnit,
                        Pass::forward,
                        {{SectionRole::other, {9'000}, {50'000}, KernelClass::memory_bound, 0, {}}},
                        {1'000}});
  w.has_timing = true;
  if (measured_ms > 0)
    w.measured = Measured{std::vector<double>(12, measured_ms), std::vector<double>(12, measured_ms / 2)};
  return w;
}

inline Workload timed_workload(const Settings& settings, std::uint32_t blocks, double measured_ms = 0) {
  return timed_workload(settings, small_units(blocks), measured_ms);
}

inline Settings random_settings() {
  Settings s = four_gpus();
  s.param_dtype = DType::bfloat16;
  s.reduce_dtype = DType::float32;
  s.unshard_async = *rc::gen::inRange(0, 3) == 0;
  if (*rc::gen::arbitrary<bool>()) s.forward_prefetch = *rc::gen::inRange(0U, 4U);
  if (*rc::gen::arbitrary<bool>()) s.backward_prefetch = *rc::gen::inRange(0U, 4U);
  s.reshard_after_forward.kind = *rc::gen::element(Reshard::Kind::always, Reshard::Kind::never);
  s.root_reshard_explicit = *rc::gen::arbitrary<bool>();
  s.all_gather = *rc::gen::element(Transport::nccl, Transport::copy_engine);
  s.release = *rc::gen::element(Release::automatic, Release::record_stream);
  s.optimizer = *rc::gen::element(Optimizer::adam, Optimizer::adam_fused, Optimizer::sgd);
  if (s.release != Release::record_stream && *rc::gen::inRange(0, 4) == 0)
    s.cuda_graph = CudaGraph{*rc::gen::inRange(0U, 3U), *rc::gen::inRange(1U, 3U)};
  return s;
}

}  // namespace foreshard::test

// A capture rewritten for other settings (fsdp2 semantics 13.2 to 13.4), on programs small enough to read.
#include "core/adapt/adapt.hpp"

#include <algorithm>

#include "tests/core/adapt/small_program.hpp"

namespace foreshard::test {
namespace {

Settings accumulating(std::uint32_t microbatches) {
  Settings s = four_gpus();
  s.param_dtype = DType::bfloat16;
  s.reduce_dtype = DType::float32;
  s.accumulate = microbatches;
  return s;
}

void check_sound(const Workload& w) {
  for (const Program& program : w.steps) CHECK(flaw_of(program).empty());
}

std::size_t hooks(const Program& program, Hook hook) {
  return static_cast<std::size_t>(std::count_if(program.ops.begin(), program.ops.end(), [&](const Op& op) {
    return op.kind == OpKind::hook && op.hook == hook;
  }));
}

TEST_CASE("one microbatch made into n is the program with n") {
  for (std::uint32_t n = 1; n <= 4; ++n) {
    INFO(n << " microbatches");
    Workload w = small_workload(accumulating(1));
    REQUIRE(set_microbatches(w, 1, n));
    check_sound(w);
    const Workload expected = small_workload(accumulating(n));
    for (std::size_t step = 0; step < 2; ++step) CHECK(text_of(w.steps[step]) == text_of(expected.steps[step]));
  }
}

TEST_CASE("n microbatches made into one are the program with one") {
  for (std::uint32_t n = 2; n <= 4; ++n) {
    Workload w = small_workload(accumulating(n));
    REQUIRE(set_microbatches(w, n, 1));
    check_sound(w);
    const Workload expected = small_workload(accumulating(1));
    for (std::size_t step = 0; step < 2; ++step) CHECK(text_of(w.steps[step]) == text_of(expected.steps[step]));
  }
}

TEST_CASE("microbatches 1, 2, 3 and back to 1") {
  Workload w = small_workload(accumulating(1));
  const Workload original = w;
  REQUIRE(set_microbatches(w, 1, 2));
  REQUIRE(set_microbatches(w, 2, 3));
  check_sound(w);
  CHECK(hooks(w.steps[1], Hook::microbatch_begin) == 3);
  REQUIRE(set_microbatches(w, 3, 1));
  for (std::size_t step = 0; step < 2; ++step) CHECK(text_of(w.steps[step]) == text_of(original.steps[step]));
}

TEST_CASE("the first step's workspaces appear once, whatever the microbatches") {
  Workload w = small_workload(accumulating(1));
  REQUIRE(set_microbatches(w, 1, 3));
  CHECK(kept_bytes(w.steps[0]) == kWorkspace);
  CHECK(kept_bytes(w.steps[1]) == 0);
}

/// Inputs and loss that live until the next step binds their names again, as in most training loops.
Workload rebinding(std::uint32_t microbatches) {
  Workload w = small_workload(accumulating(microbatches));
  w.steps.erase(w.steps.begin());  // one steady program, so that tensors mean the same in each step
  Program& program = w.steps[0];
  const TensorId loss = program.ops[program.ops.size() - 2].tensor;
  const TensorId input = program.ops.back().tensor;
  program.ops.resize(program.ops.size() - 2);
  const auto free_after_first = [&](Bytes size, TensorId tensor) {
    Op op;
    op.kind = OpKind::free;
    op.tensor = tensor;
    op.steps_ago = 1;
    const auto at = std::find_if(program.ops.begin(), program.ops.end(),
                                 [&](const Op& o) { return o.kind == OpKind::alloc && o.size.bytes == size; });
    program.ops.insert(at + 1, op);
  };
  free_after_first(kInput, input);
  free_after_first(kLoss, loss);
  return w;
}

/// Bytes that stay when a step runs over and over, beyond what one step holds for the next.
std::vector<Bytes> held_after_each_step(const Program& program, int steps) {
  std::map<std::pair<int, TensorId>, Bytes> live;
  std::vector<Bytes> out;
  for (int step = 0; step < steps; ++step) {
    for (const Op& op : program.ops) {
      if (op.kind == OpKind::alloc && !op.gradient_of.valid()) live[{step, op.tensor}] = op.size.bytes;
      if (op.kind == OpKind::free) live.erase({step - static_cast<int>(op.steps_ago), op.tensor});
    }
    Bytes total = 0;
    for (const auto& [tensor, bytes] : live) total += bytes;
    out.push_back(total);
  }
  return out;
}

TEST_CASE("what a step holds for the next is held once, not once a microbatch") {
  const Workload one = rebinding(1);
  CHECK(held_after_each_step(one.steps[0], 4) == std::vector<Bytes>(4, kInput + kLoss));
  Workload w = one;
  REQUIRE(set_microbatches(w, 1, 3));
  check_sound(w);
  CHECK(held_after_each_step(w.steps[0], 4) == std::vector<Bytes>(4, kInput + kLoss));
  CHECK(text_of(w.steps[0]) == text_of(rebinding(3).steps[0]));
  Workload back = rebinding(3);
  REQUIRE(set_microbatches(back, 3, 1));
  check_sound(back);
  CHECK(held_after_each_step(back.steps[0], 4) == std::vector<Bytes>(4, kInput + kLoss));
  CHECK(text_of(back.steps[0]) == text_of(one.steps[0]));
}

TEST_CASE("microbatches that are not those of the settings are a mismatch") {
  Workload w = small_workload(accumulating(2));
  const auto refused = set_microbatches(w, 1, 2);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == ErrorKind::mismatch);
  CHECK_FALSE(refused.error().hint.empty());
  Workload none = small_workload(accumulating(1));
  for (Program& program : none.steps) std::erase_if(program.ops, [](const Op& op) { return op.kind == OpKind::hook; });
  CHECK_FALSE(set_microbatches(none, 1, 2));
}

TEST_CASE("two blocks a unit: the first's pre-forward and post-backward, the last's post-forward and pre-backward") {
  Workload w = small_workload(four_gpus(), 5);
  REQUIRE(merge_units(w, 2));
  REQUIRE(w.units.size() == 4);  // root, 0+1, 2+3, 4
  CHECK(w.units[1].name == "layers.0, layers.1");
  CHECK(w.units[3].name == "layers.4");
  CHECK(w.units[1].parameters.size() == 4);
  check_sound(w);
  std::vector<std::string> order;
  for (const Op& op : w.steps[1].ops) {
    if (op.kind != OpKind::hook || !op.unit.valid()) continue;
    const char* what = op.hook == Hook::pre_forward    ? "pre"
                       : op.hook == Hook::post_forward ? "post"
                       : op.hook == Hook::pre_backward ? "back"
                                                       : "reduce";
    order.push_back(fmt::format("{} {}", what, op.unit.value));
  }
  CHECK(order == std::vector<std::string>{"pre 0", "pre 1", "post 1", "pre 2", "post 2", "pre 3", "post 3", "post 0",
                                          "back 0", "back 3", "reduce 3", "back 2", "reduce 2", "back 1", "reduce 1"});
  // Casts of inner members' inputs are gone: blocks 1 and 3 of 0 to 4.
  const auto casts = std::count_if(w.steps[1].ops.begin(), w.steps[1].ops.end(),
                                   [](const Op& op) { return op.kind == OpKind::alloc && op.size.bytes == 600; });
  CHECK(casts == 3);
  CHECK_FALSE(merge_units(w, 0));
}

TEST_CASE("units that lie in one another are not joined") {
  Workload w = small_workload(four_gpus(), 2);
  const auto post_forward_of = [](std::uint32_t unit) {
    return [unit](const Op& op) {
      return op.kind == OpKind::hook && op.hook == Hook::post_forward && op.unit == UnitId{unit};
    };
  };
  std::vector<Op>& ops = w.steps.back().ops;  // the second block's forward inside the first's
  const auto outer = std::find_if(ops.begin(), ops.end(), post_forward_of(1));
  const auto inner = std::find_if(ops.begin(), ops.end(), post_forward_of(2));
  std::rotate(outer, outer + 1, inner + 1);
  CHECK(merge_units(w, 1));
  const auto refused = merge_units(w, 2);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == ErrorKind::usage);
  CHECK(refused.error().what.find("'layers.1' lies inside unit 'layers.0'") != std::string::npos);
  CHECK(w.units.size() == 3);
  // A block whose recomputed forward stops early, before its post-forward.
  Workload stops = small_workload(four_gpus(), 3);
  for (Program& program : stops.steps)
    for (std::size_t i = 0; i < program.ops.size(); ++i)
      if (program.ops[i].kind == OpKind::hook && program.ops[i].hook == Hook::pre_backward &&
          program.ops[i].unit != kRootUnit) {
        Op again = program.ops[i];
        again.hook = Hook::pre_forward;
        program.ops.insert(program.ops.begin() + static_cast<std::ptrdiff_t>(i++), again);
      }
  CHECK(merge_units(stops, 2));
}

TEST_CASE("a merged unit costs its members' work and one member's host time and metadata copy") {
  Workload w = small_workload(four_gpus(), 2);
  for (std::uint32_t u = 0; u <= 2; ++u) {
    SectionCost cost;
    cost.section = Section::reduce;
    cost.unit = UnitId{u};
    cost.pass = Pass::backward;
    cost.items.push_back({SectionRole::metadata_copy, {100}, {10 + u}, KernelClass::memory_bound, 8, {}});
    cost.items.push_back({SectionRole::chunk_cat, {200}, {1000 * (u + 1)}, KernelClass::memory_bound, 0, {}});
    cost.host_after = {50};
    w.sections.push_back(cost);
  }
  REQUIRE(merge_units(w, 2));
  REQUIRE(w.sections.size() == 2);
  const SectionCost& merged = w.sections[1];
  CHECK(merged.unit == UnitId{1});
  CHECK(merged.items[0].work.count == 11);
  CHECK(merged.items[1].work.count == 5000);
  CHECK(merged.items[1].host_before.count == 200);
  CHECK(merged.host_after.count == 50);
}

TEST_CASE("checkpointing frees what a block saved and makes it again in backward") {
  Workload w = small_workload(four_gpus());
  const Workload plain = w;
  REQUIRE(checkpoint_blocks(w));
  check_sound(w);
  for (std::size_t step = 0; step < 2; ++step) CHECK(kept_bytes(w.steps[step]) == kept_bytes(plain.steps[step]));
  const std::vector<Op>& ops = w.steps[1].ops;
  const auto hook_at = [&](Hook hook, std::uint32_t unit) {
    return static_cast<std::size_t>(std::find_if(ops.begin(), ops.end(),
                                                 [&](const Op& op) {
                                                   return op.kind == OpKind::hook && op.hook == hook &&
                                                          op.unit == UnitId{unit};
                                                 }) -
                                    ops.begin());
  };
  const std::size_t post = hook_at(Hook::post_forward, 1);
  CHECK(ops[post - 1].kind == OpKind::free);  // the saved tensor, just before the block's post-forward
  const std::size_t back = hook_at(Hook::pre_backward, 1);
  CHECK(ops[back + 1].size.bytes == kTemporary);  // recomputed: the temporary, then the saved tensor, and no more
  CHECK(ops[back + 2].size.bytes == kSaved + 1);
  CHECK(ops[back + 3].kind == OpKind::free);  // the temporary, which the early stop leaves behind
  CHECK(ops[back + 4].size.bytes == kTemporary);
  // The first step's workspace is not made again.
  const auto workspaces = std::count_if(w.steps[0].ops.begin(), w.steps[0].ops.end(), [](const Op& op) {
    return op.kind == OpKind::alloc && op.size.bytes == kWorkspace;
  });
  CHECK(workspaces == 1);
}

TEST_CASE("checkpointing with several microbatches recomputes each") {
  Workload w = small_workload(accumulating(2));
  REQUIRE(checkpoint_blocks(w));
  check_sound(w);
  const auto saved = std::count_if(w.steps[1].ops.begin(), w.steps[1].ops.end(), [](const Op& op) {
    return op.kind == OpKind::alloc && op.size.bytes == kSaved + 1;
  });
  CHECK(saved == 4);
  CHECK(kept_bytes(w.steps[1]) == 0);
}

TEST_CASE("adapt combines the three and leaves its input alone") {
  const Workload w = small_workload(accumulating(1), 4);
  Settings wanted = accumulating(2);
  wanted.units_per_group = 2;
  wanted.checkpoint = Checkpoint::blocks;
  wanted.forward_prefetch = 1;
  const auto adapted = adapt(w, wanted);
  REQUIRE(adapted);
  check_sound(adapted->workload);
  CHECK(adapted->workload.units.size() == 3);
  CHECK(hooks(adapted->workload.steps[1], Hook::microbatch_begin) == 2);
  CHECK_FALSE(adapted->warnings.empty());
  CHECK(w.units.size() == 5);
  const auto same = adapt(w, w.settings);
  REQUIRE(same);
  CHECK(same->warnings.empty());
  CHECK(text_of(same->workload.steps[1]) == text_of(w.steps[1]));
}

void check_refused(const Workload& w, const Settings& wanted) {
  const auto refused = adapt(w, wanted);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == ErrorKind::usage);
  CHECK_FALSE(refused.error().what.empty());
  CHECK_FALSE(refused.error().hint.empty());
}

TEST_CASE("kernels of gradient clipping take as much longer as shards do") {
  Workload w = small_workload(accumulating(1));
  w.shards_known = w.optimizer_known = true;
  const LabelId foreach = w.labels.intern("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<LpNorm>");
  const auto add = [&](Hook behind, LabelId label) {
    Op kernel;
    kernel.kernel = {KernelClass::memory_bound, Nanoseconds{1'000}, 0, 0, label};
    auto& ops = w.steps.back().ops;
    const auto at = std::find_if(ops.begin(), ops.end(),
                                 [&](const Op& op) { return op.kind == OpKind::hook && op.hook == behind; });
    REQUIRE(at != ops.end());
    ops.insert(at + 1, kernel);
  };
  add(Hook::backward_end, foreach);
  add(Hook::backward_end, w.labels.intern("another kernel"));
  add(Hook::forward_begin, foreach);  // of the model itself
  Settings wanted = w.settings;
  CHECK_FALSE(rewrites(w, wanted));
  wanted.gpus *= 2;
  REQUIRE(rewrites(w, wanted));
  const auto adapted = adapt(w, wanted);
  REQUIRE(adapted);
  std::vector<std::int64_t> times;
  for (const Op& op : adapted->workload.steps.back().ops)
    if (op.kind == OpKind::kernel) times.push_back(op.kernel.work.count);
  CHECK(times == std::vector<std::int64_t>{1'000, 1'000, 500});
}

TEST_CASE("what one capture cannot tell is refused with what would help") {
  const Workload w = small_workload(accumulating(1));
  Settings batch = w.settings;
  batch.batch = 8;
  check_refused(w, batch);
  Settings seq = w.settings;
  seq.seq = 512;
  check_refused(w, seq);
  Settings dtype = w.settings;
  dtype.param_dtype = {};
  check_refused(w, dtype);
  Settings kept = w.settings;
  kept.set_to_none = false;
  check_refused(w, kept);
  Workload zeroing = w;
  zeroing.settings.set_to_none = false;
  check_refused(zeroing, w.settings);
  CHECK(adapt(zeroing, kept));
  Settings mesh = w.settings;
  mesh.replicate = 2;
  CHECK(adapt(w, mesh));
  Workload unknown_shards = w;
  unknown_shards.shards_known = false;
  check_refused(unknown_shards, mesh);
  Workload unknown_optimizer = w;
  unknown_optimizer.optimizer_known = false;
  check_refused(unknown_optimizer, mesh);
  Settings fused = w.settings;
  fused.optimizer = Optimizer::adam_fused;
  CHECK(adapt(w, fused));
  check_refused(unknown_optimizer, fused);
  Workload offloaded = w;
  offloaded.settings.offload = true;
  check_refused(offloaded, w.settings);
  Workload merged = w;
  merged.settings.units_per_group = 2;
  check_refused(merged, w.settings);
  Workload checkpointed = w;
  checkpointed.settings.checkpoint = Checkpoint::blocks;
  check_refused(checkpointed, w.settings);
  for (const Checkpoint kind : {Checkpoint::selective_op, Checkpoint::selective_layer}) {
    Settings selective = w.settings;
    selective.checkpoint = kind;
    check_refused(w, selective);
  }
}

}  // namespace
}  // namespace foreshard::test

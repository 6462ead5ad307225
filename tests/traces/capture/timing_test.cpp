// One step out of a profiler trace: host intervals, blocked launches, synchronisations, sections, what of
// two steps is kept.
#include "traces/capture/timing.hpp"

#include <string>

#include "tests/catch.hpp"
#include "tests/traces/capture/trace_run.hpp"
#include "traces/capture/step_sizes.hpp"

using namespace foreshard;
using namespace foreshard::traces;

namespace {

sim::MachineProfile h200_sized() {
  sim::MachineProfile out;
  out.sm_count = 132;
  return out;
}

const std::string kAllGather = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
const std::string kSplit = "at::native::detail::split_with_sizes_copy_out_contiguous_no_cast_kernel(char**)";
const std::string kCast = "void multi_tensor_apply_kernel<TensorListMetadata<2>, CopyFunctor<c10::BFloat16, float> >";
const std::string kCopyIn = "void multi_tensor_apply_kernel<TensorListMetadata<2>, UnaryOpFunctor<c10::BFloat16> >";
const std::string kAdd = "void unrolled_elementwise_kernel<at::native::CUDAFunctor_add<float> >";

// A step of one unit with one user kernel in forward, one in backward and one in the optimizer. `slow`
// stretches the forward kernel's host interval, `work` its duration.
void append_step(TraceRun& trace, double t, double slow, double work) {
  trace.range("Optimizer.zero_grad#Adam.zero_grad", t, t + 10);
  trace.range("FSDP::root_pre_forward", t + 20, t + 25);
  trace.range("FSDP::pre_forward (layers.0)", t + 30, t + 200);
  trace.range("FSDP::all_gather (layers.0)", t + 40, t + 140);
  trace.launch(kCast, t + 60, t + 65, t + 70, 4, 1);
  trace.launch(kCopyIn, t + 80, t + 85, t + 90, 4, 1);
  trace.launch(kAllGather, t + 110, t + 116, t + 120, 30, 2);
  trace.range("FSDP::all_gather_copy_out (layers.0)", t + 150, t + 190);
  trace.launch("Memcpy HtoD (Pinned -> Device)", t + 165, t + 175, t + 176, 3);
  trace.launch(kSplit, t + 180, t + 185, t + 190, 5);
  trace.launch("Memset (Device)", t + 210, t + 212, t + 215, 1);
  trace.launch("forward_kernel", t + 230 + slow, t + 235 + slow, t + 240 + slow, work);
  trace.range("FSDP::post_forward (layers.0)", t + 300, t + 310);
  trace.range("FSDP::pre_backward (layers.0)", t + 350, t + 360);
  trace.launch("backward_kernel", t + 370, t + 375, t + 380, 10, 0, 1);
  trace.range("FSDP::post_backward_accumulate (layers.0)", t + 400, t + 430);
  trace.launch(kAdd, t + 410, t + 414, t + 416, 2, 0, 1);
  trace.launch(kAdd, t + 416, t + 420, t + 421, 2, 0, 1);
  trace.range("FSDP::post_backward_reshard (layers.0)", t + 440, t + 450);  // issues nothing
  trace.range("FSDP::root_post_backward_callback", t + 460, t + 480);
  trace.range("Optimizer.step#Adam.step", t + 500, t + 600);
  trace.launch("adam_kernel", t + 550, t + 555, t + 560, work);
}

const TimedSegment& segment(const StepTiming& timing, Hook hook) {
  for (const TimedSegment& s : timing.segments)
    if (s.hook == hook) return s;
  FAIL("no such segment");
  return timing.segments[0];
}

double us(Nanoseconds time) {
  return time.us();
}

}  // namespace

TEST_CASE("a step's host intervals leave the sections out") {
  TraceRun trace;
  append_step(trace, 0, 0, 20);
  const auto timing = read_timing(trace.run, h200_sized());
  REQUIRE(timing);

  const TimedSegment& pre_forward = segment(*timing, Hook::pre_forward);
  REQUIRE(pre_forward.items.size() == 2);
  CHECK(pre_forward.items[0].kernel.kernel_class == KernelClass::memset);
  // 30 to 40 before the all-gather, 140 to 150 between the sections, 190 to 210 after.
  CHECK(us(pre_forward.items[0].host_before) == 40);
  CHECK(us(pre_forward.items[1].host_before) == 20);
  CHECK(us(pre_forward.items[1].kernel.work) == 20);
  CHECK(pre_forward.items[0].position == Approx(180.0 / 270.0));
  CHECK(us(segment(*timing, Hook::post_forward).hook_host_before) == 70);
  CHECK(us(segment(*timing, Hook::pre_backward).hook_host_before) == 0);  // backward_begin is at the same place

  REQUIRE(timing->sections.size() == 4);
  const SectionCost& gather = timing->sections[0];
  CHECK(gather.section == Section::all_gather);
  CHECK(gather.unit == UnitId{1});
  CHECK(gather.pass == Pass::forward);
  REQUIRE(gather.items.size() == 3);
  CHECK(gather.items[0].role == SectionRole::cast);
  CHECK(gather.items[1].role == SectionRole::copy_in);
  CHECK(gather.items[2].role == SectionRole::collective);
  CHECK(us(gather.items[0].host_before) == 20);
  CHECK(us(gather.items[2].host_before) == 30);
  CHECK(us(gather.items[2].work) == 0);
  CHECK(gather.items[0].kernel_class == KernelClass::gather_copy);
  CHECK(us(gather.host_after) == 30);
  const SectionCost& copy_out = timing->sections[1];
  CHECK(copy_out.items[0].role == SectionRole::metadata_copy);
  CHECK(copy_out.items[0].bytes == 1000);
  CHECK(copy_out.items[1].role == SectionRole::split);

  // Accumulation: the range's own 10 us before the first add count as the hook's, but for one interval.
  const SectionCost& accumulate = timing->sections[2];
  CHECK(accumulate.section == Section::accumulate);
  CHECK(accumulate.pass == Pass::backward);
  REQUIRE(accumulate.items.size() == 2);
  CHECK(accumulate.items[0].role == SectionRole::gradient_add);
  CHECK(us(accumulate.items[0].host_before) == 6);
  CHECK(us(accumulate.host_after) == 4);

  const SectionCost& optimizer = timing->sections[3];
  CHECK(optimizer.section == Section::optimizer);
  CHECK(us(optimizer.items[0].host_before) == 50);
  CHECK(us(optimizer.host_after) == 50);
  CHECK(us(timing->host_total) == 600);
}

TEST_CASE("copies of a shard group of one rank, which have no range of their own, are its copy-out") {
  const std::string cast = "void vectorized_elementwise_kernel<8, bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)>";
  TraceRun trace;
  append_step(trace, 0, 0, 20);
  // Behind the unit's own all-gather and copy-out, and before a prefetch: still in its pre-forward.
  trace.range("FSDP::pre_forward (layers.0)", 290, 298);
  trace.launch(cast, 291, 292, 293, 2);
  trace.launch("Memcpy DtoD (Device -> Device)", 293, 294, 295, 3);
  trace.range("FSDP::forward_prefetch for layers.0", 296, 298);
  trace.launch("Memset (Device)", 297, 297.5, 299, 1);
  const auto timing = read_timing(trace.run, h200_sized());
  REQUIRE(timing);
  std::vector<const SectionCost*> found;
  for (const SectionCost& cost : timing->sections)
    if (cost.section == Section::copy_out) found.push_back(&cost);
  REQUIRE(found.size() == 2);
  REQUIRE(found[1]->items.size() == 2);
  CHECK(found[1]->items[0].role == SectionRole::cast);
  CHECK(found[1]->items[1].role == SectionRole::split);
}

TEST_CASE("of two steps intervals are the least, durations of the user's kernels the mean") {
  TraceRun trace;
  append_step(trace, 0, 30, 20);
  append_step(trace, 1000, 0, 30);
  const auto timing = read_timing(trace.run, h200_sized());
  REQUIRE(timing);
  CHECK(timing->stats.empty());
  const TimedSegment& pre_forward = segment(*timing, Hook::pre_forward);
  CHECK(us(pre_forward.items[1].host_before) == 20);
  CHECK(us(pre_forward.items[1].kernel.work) == 25);
  CHECK(us(timing->sections.back().items[0].work) == 25);
  // What follows the optimizer until the next step is put before the step.
  CHECK(us(timing->segments[0].hook_host_before) == 400);
}

TEST_CASE("the program's own collective is priced, and waited for before the first op that started after it") {
  TraceRun trace;
  const auto append = [&](double t, double collective_ends) {
    append_step(trace, t, 0, 20);
    const double begins = t + 290;
    trace.launch("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", t + 262, t + 266, begins, t + collective_ends - begins, 1);
    DeviceOpRecord& op = trace.run.device_ops.back();
    op.collective = CollectiveKind::all_reduce;
    op.communicator = CommunicatorId{0};
    op.bytes = 1 << 20;
    trace.launch("beside it", t + 270, t + 275, t + 295, 2);
    trace.launch("behind it", t + 280, t + 285, t + 333, 2);
  };
  append(0, 330);
  append(1000, 296);  // here the op beside it started after it as well: the other step tells
  const std::vector<ProcessGroup> groups{{"mesh_tp", 2, 1}};
  const auto timing = read_timing(trace.run, h200_sized(), groups);
  REQUIRE(timing);
  CHECK(timing->stats.empty());
  CHECK(timing->process_groups == groups);
  const TimedSegment& pre_forward = segment(*timing, Hook::pre_forward);
  std::vector<OpKind> kinds;
  for (const TimedItem& item : pre_forward.items) kinds.push_back(item.kind);
  CHECK(kinds == std::vector<OpKind>{OpKind::kernel, OpKind::kernel, OpKind::collective, OpKind::kernel,
                                     OpKind::wait_stream, OpKind::kernel});
  REQUIRE(pre_forward.items.size() == 6);
  const TimedItem& collective = pre_forward.items[2];
  CHECK(collective.collective == UserCollective{0, CollectiveKind::all_reduce, 1 << 20});
  CHECK(collective.user_stream == 1);
  CHECK(pre_forward.items[4].user_stream == 1);
  CHECK(pre_forward.items[4].position == pre_forward.items[5].position);

  const auto unpriced = read_timing(trace.run, h200_sized());  // its group is not known
  REQUIRE(unpriced);
  REQUIRE(unpriced->stats.size() == 1);
  CHECK(unpriced->stats[0].name == "user_collectives");
  CHECK(unpriced->stats[0].count == 1);
}

TEST_CASE("the program's exchanges are ops of the stream they ran on, of the mean of their sizes") {
  TraceRun trace;
  const auto append = [&](double t, Bytes bytes) {
    append_step(trace, t, 0, 20);
    const auto exchange = [&](double at, double start, std::uint32_t stream, CollectiveKind kind, Bytes size) {
      trace.launch("ncclDevKernel_SendRecv(x)", at, at + 4, start, 10, stream);
      DeviceOpRecord& op = trace.run.device_ops.back();
      op.collective = kind;
      op.communicator = CommunicatorId{0};
      op.bytes = size;
    };
    exchange(t + 262, t + 290, 0, CollectiveKind::all_to_all, bytes);
    exchange(t + 268, t + 302, 1, CollectiveKind::send_recv, 4096);
    exchange(t + 274, t + 314, 1, CollectiveKind::send_recv, 0);  // whose size nobody told
    trace.launch("behind it", t + 280, t + 285, t + 333, 2);
  };
  append(0, 1000);
  append(1000, 3000);
  const std::vector<ProcessGroup> groups{{"cp", 2, 1}};
  const auto timing = read_timing(trace.run, h200_sized(), groups);
  REQUIRE(timing);
  std::vector<std::pair<UserCollective, int>> found;
  for (const TimedItem& item : segment(*timing, Hook::pre_forward).items)
    if (item.kind == OpKind::collective) found.emplace_back(item.collective, item.user_stream);
  CHECK(found == std::vector<std::pair<UserCollective, int>>{{{0, CollectiveKind::all_to_all, 2000}, 0},
                                                             {{0, CollectiveKind::send_recv, 4096}, 1}});
  REQUIRE(timing->stats.size() == 1);
  CHECK(timing->stats[0].name == "user_collectives");
  CHECK(timing->stats[0].count == 1);
}

TEST_CASE("steps that differ are counted, and the later of two is taken") {
  TraceRun trace;
  append_step(trace, 0, 0, 20);
  trace.launch("first step only", 240, 245, 280, 5);
  append_step(trace, 1000, 0, 30);
  const auto timing = read_timing(trace.run, h200_sized());
  REQUIRE(timing);
  CHECK(segment(*timing, Hook::pre_forward).items.size() == 2);
  CHECK(us(segment(*timing, Hook::pre_forward).items[1].kernel.work) == 30);
  REQUIRE(timing->stats.size() == 2);
  CHECK(timing->stats[0].name == "different_steps");
  CHECK(timing->stats[1].name == "single_step");
}

TEST_CASE("a blocked launch and a synchronisation are no host work") {
  TraceRun trace;
  trace.range("Optimizer.zero_grad#Adam.zero_grad", 0, 10);
  trace.range("FSDP::root_pre_forward", 20, 25);
  trace.launch("blocked", 30, 230, 240, 5);  // 200 us in the call: 192 of them waiting
  trace.launch("next", 250, 255, 260, 5);
  trace.call("cudaStreamSynchronize", 270, 670);
  trace.launch("last", 690, 695, 700, 5);
  trace.range("FSDP::post_forward", 800, 810);
  trace.range("FSDP::root_post_backward_callback", 900, 910);
  trace.range("Optimizer.step#SGD.step", 920, 930);
  const auto timing = read_timing(trace.run, h200_sized());
  REQUIRE(timing);
  const TimedSegment& forward = segment(*timing, Hook::forward_begin);
  REQUIRE(forward.items.size() == 4);
  CHECK(us(forward.items[0].host_before) == 10);
  CHECK(us(forward.items[1].host_before) == 28);
  CHECK(forward.items[2].kind == OpKind::synchronize);
  CHECK(us(forward.items[2].host_before) == 20);
  CHECK(us(forward.items[3].host_before) == 20);
}

TEST_CASE("the wait that ends the trace is not the program's") {
  for (const bool program : {false, true}) {
    TraceRun trace;
    append_step(trace, 0, 0, 20);
    trace.range("Optimizer.step#SGD.step", 1000, 1400);
    trace.call("cudaDeviceSynchronize", 1100, 1300);
    if (program) trace.launch("behind it", 1320, 1325, 1330, 5);
    const auto timing = read_timing(trace.run, h200_sized());
    REQUIRE(timing);
    const bool waits = std::any_of(timing->stats.begin(), timing->stats.end(),
                                   [](const ImportStat& stat) { return stat.name == "waits_in_sections"; });
    CHECK(waits == program);
    // Host work is what lies before the wait, and behind it what the program does, not what stops the profiler.
    const SectionCost& optimizer = timing->sections.back();
    REQUIRE(optimizer.items.size() == (program ? 2 : 1));
    if (program) CHECK(us(optimizer.items[1].host_before) == 550 + 20);
    CHECK(us(optimizer.host_after) == (program ? 80 : 550));
  }
}

TEST_CASE("profiled steps of other hooks are kinds of their own") {
  TraceRun trace;
  append_step(trace, 0, 0, 20);
  append_step(trace, 1000, 0, 20);
  trace.range("FSDP::root_pre_forward", 1601, 1602);  // an evaluation in front of the third
  trace.range("FSDP::pre_forward (layers.0)", 1603, 1604);
  trace.launch("forward_kernel", 1610, 1612, 1615, 20);
  trace.range("FSDP::post_forward (layers.0)", 1620, 1630);
  append_step(trace, 2000, 0, 20);
  const auto timing = read_timing(trace.run, h200_sized());
  REQUIRE(timing);
  REQUIRE(timing->sizes.size() == 2);
  CHECK(timing->sizes[0].segments.size() < timing->sizes[1].segments.size());
  CHECK(hook_places(timing->sizes[0]) == hook_places(*timing));
}

TEST_CASE("ops on a further stream of the user's keep it, its collectives are counted") {
  TraceRun trace;
  append_step(trace, 0, 0, 20);
  trace.launch("side", 240, 245, 250, 5, 5);
  trace.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 250, 255, 256, 5, 6);
  const auto timing = read_timing(trace.run, h200_sized());
  REQUIRE(timing);
  const TimedSegment& pre_forward = segment(*timing, Hook::pre_forward);
  REQUIRE(pre_forward.items.size() == 3);
  CHECK(pre_forward.items[1].user_stream == 0);
  CHECK(pre_forward.items[2].user_stream == 1);
  CHECK(us(segment(*timing, Hook::post_forward).hook_host_before) == 60);
  bool counted = false;
  for (const ImportStat& stat : timing->stats) counted |= stat.name == "user_collectives" && stat.count == 1;
  CHECK(counted);
}

TEST_CASE("a trace without a full step, or of other units, is refused") {
  TraceRun trace;
  trace.range("FSDP::root_pre_forward", 20, 25);
  auto timing = read_timing(trace.run, h200_sized());
  REQUIRE_FALSE(timing);
  CHECK(timing.error().kind == ErrorKind::mismatch);
  CHECK(timing.error().what.find("no full training step") != std::string::npos);

  append_step(trace, 100, 0, 20);
  trace.run.units.pop_back();
  timing = read_timing(trace.run, h200_sized());
  REQUIRE_FALSE(timing);
  CHECK(timing.error().what.find("layers.0") != std::string::npos);
}

// Checkpointing and inputs from kernels, requests and grids that were laid out by hand.
#include "traces/infer/user_program.hpp"

#include "tests/catch.hpp"

namespace foreshard::traces {
namespace {

/// A trace of one unit: names of the kernels in its forward and in its backward, one a microsecond.
class OneUnit {
 public:
  OneUnit(const std::vector<std::string>& forward, const std::vector<std::string>& backward) {
    out_.recorded.resize(2);
    out_.recorded[1].name = "a";
    open("FSDP::pre_forward (a)");
    kernels(forward);
    open("FSDP::post_forward (a)");
    open("FSDP::pre_backward (a)");
    kernels(backward);
    open("FSDP::post_backward_accumulate (a)");
  }
  const Inference& infer() {
    infer_checkpoint({snapshot_, {}, {}, &trace_, ranges_}, out_);
    return out_;
  }

 private:
  void open(std::string_view name) {
    ranges_.push_back({name, {now_ + 10}, {now_ + 20}});
    now_ += 30;
  }
  void kernels(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      DeviceOpRecord op;
      op.stream = StreamId{0};
      op.label = trace_.run.labels.intern(name);
      op.issue = op.start = op.end = {now_ += 10};
      trace_.run.device_ops.push_back(op);
    }
  }

  Snapshot snapshot_;
  ProfilerTrace trace_;
  std::vector<Range> ranges_;
  Inference out_;
  std::int64_t now_ = 0;
};

const std::vector<std::string> kForward{"norm",    "nvjet_a", "nvjet_a", "rope", "flash_fwd_kernel",
                                        "nvjet_b", "nvjet_c", "add"};
const std::vector<std::string> kBackward{"add_back", "nvjet_d", "nvjet_e", "flash_bwd_kernel", "norm_back"};

std::vector<std::string> joined(std::vector<std::string> first) {
  first.insert(first.end(), kBackward.begin(), kBackward.end());
  return first;
}

TEST_CASE("a backward of its own makes nothing again") {
  CHECK(OneUnit(kForward, kBackward).infer().settings.checkpoint == Checkpoint::none);
}

TEST_CASE("a backward that begins with its forward is checkpointed, whether or not it stops early") {
  OneUnit whole(kForward, joined(kForward));
  CHECK(whole.infer().settings.checkpoint == Checkpoint::blocks);
  OneUnit early(kForward, joined({kForward.begin(), kForward.end() - 2}));
  CHECK(early.infer().settings.checkpoint == Checkpoint::blocks);
  CHECK(early.infer().item("checkpoint")->settled);
}

TEST_CASE("attention and every other GEMM that stay away are selective checkpointing by op") {
  OneUnit unit(kForward, joined({"norm", "nvjet_a", "rope", "nvjet_c", "add"}));
  CHECK(unit.infer().settings.checkpoint == Checkpoint::selective_op);
}

TEST_CASE("another policy is said, and not taken for one that is known") {
  OneUnit unit(kForward, joined({"norm", "nvjet_a", "nvjet_a", "flash_fwd_kernel", "nvjet_b", "nvjet_c"}));
  const Inference& found = unit.infer();
  CHECK(found.settings.checkpoint == Checkpoint::none);
  CHECK_FALSE(found.item("checkpoint")->settled);
}

TEST_CASE("a compiled backward of its own settles nothing") {
  std::vector<std::string> compiled = kForward;
  compiled[0] = "triton_per_fused_mean_mul_0";
  OneUnit unit(compiled, kBackward);
  CHECK_FALSE(unit.infer().item("checkpoint")->settled);
}

TEST_CASE("a forward of few kernels settles nothing") {
  OneUnit unit({"gemm", "add"}, {"gemm", "add"});
  CHECK_FALSE(unit.infer().item("checkpoint")->settled);
  CHECK(unit.infer().checkpointed.empty());
}

TEST_CASE("a backward that begins with the second half of its forward settles nothing") {
  std::vector<std::string> twice = kForward;  // a unit of two checkpointed blocks, of which the second is made again
  twice.insert(twice.end(), kForward.begin(), kForward.end());
  OneUnit unit(twice, joined({kForward.begin(), kForward.end() - 1}));
  CHECK_FALSE(unit.infer().item("checkpoint")->settled);
}

using Grid = std::array<std::uint32_t, 3>;

/// The ranges of a step that begins then.
void append_step(std::int64_t begin, std::vector<Range>& ranges) {
  for (const auto& [name, start, end] : {std::tuple{"Optimizer.zero_grad#Adam.zero_grad", 0, 10},
                                         {"FSDP::root_pre_forward", 20, 21},
                                         {"FSDP::pre_forward", 22, 23},
                                         {"FSDP::post_forward", 24, 25},
                                         {"FSDP::pre_backward", 30, 31},
                                         {"FSDP::root_post_backward_callback", 40, 41},
                                         {"Optimizer.step#Adam.step", 50, 60}})
    ranges.push_back({name, {begin + start}, {begin + end}});
}

/// A step whose inputs are requests of these bytes, and a trace of steps with one kernel each, of these grids.
Inference with_inputs(const std::vector<Bytes>& inputs, const std::string& kernel, const std::vector<Grid>& grids) {
  const Snapshot snapshot;
  std::vector<CaptureEvent> events;
  for (const Bytes bytes : inputs) {
    CaptureEvent event;
    event.size = bytes;
    event.time = {15};
    events.push_back(event);
  }
  std::vector<Range> ranges;
  append_step(0, ranges);
  std::vector<Range> trace_ranges;
  ProfilerTrace trace;
  for (const Grid& grid : grids) {
    const auto begin = 100 * static_cast<std::int64_t>(trace.run.device_ops.size());
    append_step(begin, trace_ranges);
    DeviceOpRecord op;
    op.stream = StreamId{0};
    op.issue = {begin + 23};
    op.label = trace.run.labels.intern(kernel);
    op.grid = grid;
    trace.run.device_ops.push_back(op);
  }
  Inference out;
  out.units.push_back({"", {}});
  infer_inputs({snapshot, events, ranges, &trace, trace_ranges}, out);
  return out;
}

Inference with_inputs(const std::vector<Bytes>& inputs, const std::string& kernel, Grid grid) {
  return with_inputs(inputs, kernel, std::vector<Grid>{grid});
}

constexpr const char* kReduceHead = "cudnn::fusion::fmha_reduce_head<true>";

TEST_CASE("an attention kernel's grid tells batch from sequence length") {
  const Inference found = with_inputs({65536}, kReduceHead, {128, 4, 8});
  CHECK(found.inputs == std::vector<Bytes>{65536});
  CHECK(found.settings.batch == 4U);
  CHECK(found.settings.seq == 2048U);
  CHECK(found.item("seq")->settled);
  CHECK(found.other_inputs.empty());
  CHECK(with_inputs({2048}, "fmha_cutlassF_f32_aligned_32x128_gmem_sm80(", {2, 4, 4}).settings.seq == 64U);
  constexpr const char* kFlash = "pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 64, 4, false";
  CHECK(with_inputs({65536}, kFlash, {16, 4, 32}).settings.seq == 2048U);
}

TEST_CASE("a grid that does not fit the inputs does not") {
  CHECK_FALSE(with_inputs({65536}, kReduceHead, {7, 4, 8}).settings.batch);
  const Inference other = with_inputs({65536, 64}, kReduceHead, {128, 3, 8});
  CHECK_FALSE(other.settings.batch);
  CHECK(other.other_inputs ==
        "attends to 3 x 1017 to 1024 or 2033 to 2048 tokens, and no input of the snapshot's "
        "steps has their bytes as int64 (65536, 64)");
  // Inputs of half the size that the tile in the kernel's name asks for: int32, or something else.
  CHECK_FALSE(with_inputs({32768}, "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(", {32, 16, 4}).settings.batch);
  const Inference none = with_inputs({65536}, "other", {128, 4, 8});
  CHECK_FALSE(none.settings.batch);
  CHECK(none.unsettled.size() == 1);
  CHECK(none.other_inputs.empty());
}

TEST_CASE("inputs of two sizes that fit a grid settle no sequence length") {
  const Inference found = with_inputs({32768, 65536}, kReduceHead, {128, 4, 8});
  CHECK(found.settings.seq == 2048U);
  CHECK(found.item("batch")->settled);
  CHECK_FALSE(found.item("seq")->settled);
}

TEST_CASE("steps of several lengths tell tiles apart") {
  const std::vector<Bytes> inputs{65536, 49152, 32768};
  const Inference found = with_inputs(inputs, kReduceHead, std::vector<Grid>{{128, 4, 8}, {96, 4, 8}});
  CHECK(found.settings.seq == 2048U);
  CHECK(found.item("seq")->settled);
  CHECK(found.item("seq")->from.ends_with("; profiled steps have 2048 and 1536"));
  REQUIRE(found.attention.size() == 2);
  CHECK(found.attention[1]->tiles == 96);
}

}  // namespace
}  // namespace foreshard::traces

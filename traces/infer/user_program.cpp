#include "traces/infer/user_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "core/base/json_io.hpp"
#include "core/kernel/kernel_name.hpp"
#include "core/settings/settings_names.hpp"
#include "traces/capture/range_meaning.hpp"

namespace foreshard::traces {
namespace {

/// Kernels whose grid has the batch size in one dimension, and tiles of the sequence in the first:
/// flash_fwd_launch_template.h and mem_eff_attention/kernel_forward.h of aten/src/ATen/native/transformers/cuda
/// (PyTorch 2.11); cuDNN 9's reduction of a grouped-query backward, as recorded.
struct AttentionGrid {
  std::string_view kernel;
  std::size_t batch;
};
constexpr std::array kAttentionGrids{AttentionGrid{"fmha_reduce_head", 1}, AttentionGrid{"fmha_cutlassF", 2},
                                     AttentionGrid{"flash_fwd_kernel", 1}};
constexpr std::array<std::uint32_t, 6> kSequenceTiles{8, 16, 32, 64, 128, 256};
constexpr Bytes kTokenBytes = 8;  // torch.int64

struct AttentionShape {
  std::uint32_t batch = 0;
  std::uint32_t tiles = 0;  ///< the most over all steps
};

/// None where kernels disagree or there are none.
std::optional<AttentionShape> attention_shape(const ProfilerTrace& trace) {
  std::optional<AttentionShape> shape;
  for (const DeviceOpRecord& op : trace.run.device_ops) {
    if (op.kind != DeviceOpRecord::Kind::kernel) continue;
    for (const AttentionGrid& grid : kAttentionGrids) {
      if (trace.run.labels.text(op.label).find(grid.kernel) == std::string::npos) continue;
      const std::uint32_t batch = op.grid[grid.batch];
      if (batch == 0 || (shape && shape->batch != batch)) return std::nullopt;
      shape = AttentionShape{batch, std::max(shape ? shape->tiles : 0, op.grid[0])};
    }
  }
  return shape;
}

bool fits(std::uint64_t sequence, std::uint32_t tiles) {
  return std::any_of(kSequenceTiles.begin(), kSequenceTiles.end(),
                     [&](std::uint32_t tile) { return (sequence + tile - 1) / tile == tiles; });
}

/// Requests between the start of a microbatch and its forward.
std::vector<Bytes> inputs_of(const InferInput& input, const Hooks& hooks) {
  std::vector<Bytes> sizes;
  std::optional<Nanoseconds> from;
  for (const HookPlace& place : hooks.places) {
    if (place.hook == Hook::microbatch_begin) from = place.time;
    if (place.hook != Hook::forward_begin || !from) continue;
    const auto first = std::lower_bound(input.events.begin(), input.events.end(), *from,
                                        [](const CaptureEvent& e, Nanoseconds time) { return e.time < time; });
    for (auto it = first; it != input.events.end() && it->time <= place.time; ++it)
      if (it->allocates && std::find(sizes.begin(), sizes.end(), it->size) == sizes.end()) sizes.push_back(it->size);
    from.reset();
  }
  return sizes;
}

/// One unit's last forward and backward: the first ones make workspaces too.
struct Passes {
  const Range* pre_forward = nullptr;
  const Range* post_forward = nullptr;
  const Range* pre_backward = nullptr;
  const Range* post_backward = nullptr;
  [[nodiscard]] bool complete() const { return post_backward != nullptr; }
};

std::map<std::string_view, Passes> passes_of(std::span<const Range> ranges) {
  std::map<std::string_view, Passes> passes;
  std::map<std::string_view, Passes> open;
  for (const Range& range : ranges) {
    const RangeMeaning meaning = meaning_of(range.name);
    if (!has_unit(meaning.kind) || meaning.unit.empty()) continue;
    Passes& of = open[meaning.unit];
    const auto next = [&](const Range* before, const Range*& slot) {
      if (before != nullptr && slot == nullptr) slot = &range;
    };
    // A pre-forward inside backward is FSDP's own around a checkpointed module.
    if (meaning.kind == RangeKind::pre_forward && of.pre_backward == nullptr) of = {.pre_forward = &range};
    if (meaning.kind == RangeKind::post_forward) next(of.pre_forward, of.post_forward);
    if (meaning.kind == RangeKind::pre_backward) next(of.post_forward, of.pre_backward);
    if (meaning.kind == RangeKind::accumulate) next(of.pre_backward, of.post_backward);
    if (!of.complete()) continue;
    passes[meaning.unit] = of;
    of = {};
  }
  return passes;
}

/// One kernel of the user's program.
struct Act {
  LabelId name;
  bool gemm = false;
  bool attention = false;
};

std::vector<Act> kernels_between(const ProfilerTrace& trace, Nanoseconds from, Nanoseconds to) {
  const std::vector<DeviceOpRecord>& ops = trace.run.device_ops;
  std::vector<Act> acts;
  auto it = std::lower_bound(ops.begin(), ops.end(), from,
                             [](const DeviceOpRecord& op, Nanoseconds time) { return op.issue < time; });
  for (; it != ops.end() && it->issue <= to; ++it)
    if (it->kind == DeviceOpRecord::Kind::kernel && it->stream == StreamId{0}) {
      const KernelClass kind = kernel_class({trace.run.labels.text(it->label), it->grid, 0});
      acts.push_back({it->label, kind == KernelClass::gemm || kind == KernelClass::gemm_single_wave,
                      kind == KernelClass::attention});
    }
  return acts;
}

/// Sizes that the user's own code requested: FSDP's gathers and copy-outs are left out.
std::vector<Bytes> requests_between(const InferInput& input, Nanoseconds from, Nanoseconds to) {
  std::vector<Bytes> sizes;
  auto range = std::lower_bound(input.ranges.begin(), input.ranges.end(), from,
                                [](const Range& r, Nanoseconds time) { return r.start < time; });
  Nanoseconds busy_until = from;
  auto it = std::lower_bound(input.events.begin(), input.events.end(), from,
                             [](const CaptureEvent& e, Nanoseconds time) { return e.time <= time; });
  for (; it != input.events.end() && it->time < to; ++it) {
    for (; range != input.ranges.end() && range->start <= it->time; ++range) {
      const RangeKind kind = meaning_of(range->name).kind;
      if (kind == RangeKind::all_gather || kind == RangeKind::copy_out) busy_until = std::max(busy_until, range->end);
    }
    if (it->allocates && it->stream == 0 && it->time > busy_until) sizes.push_back(it->size);
  }
  return sizes;
}

/// How much of a forward its backward begins with.
struct Recomputed {
  std::size_t forward = 0;  ///< acts of the forward
  std::size_t again = 0;    ///< of these, made again
  bool all = true;          ///< none in between was kept
  bool selective = false;   ///< what was kept is attention and every other GEMM, the first one included
};

/// Walks through `backward` for as long as its acts come on in `forward`. Checkpointing stops early: what no saved
/// tensor needs at the end of forward is not made again (torch/utils/checkpoint.py, early_stop). GEMMs are counted:
/// those of one name are not told apart.
Recomputed recomputed(std::span<const Act> forward, std::span<const Act> backward) {
  Recomputed out;
  out.forward = forward.size();
  std::size_t at = 0;
  std::size_t gemms = 0;
  bool attention = false;
  bool others_kept = false;
  for (const Act& act : backward) {
    const auto found = std::find_if(forward.begin() + static_cast<std::ptrdiff_t>(at), forward.end(),
                                    [&](const Act& a) { return a.name == act.name; });
    if (found == forward.end()) break;
    for (; at < static_cast<std::size_t>(found - forward.begin()); ++at) {
      out.all = false;
      others_kept |= !forward[at].gemm && !forward[at].attention;
    }
    gemms += act.gemm ? 1 : 0;
    attention |= act.attention;
    ++out.again;
    ++at;
  }
  const auto all_gemms = std::count_if(forward.begin(), forward.end(), [](const Act& a) { return a.gemm; });
  const bool attends = std::any_of(forward.begin(), forward.end(), [](const Act& a) { return a.attention; });
  out.selective = attends && !attention && !others_kept && gemms == static_cast<std::size_t>(all_gemms) / 2;
  return out;
}

/// Of requests only a whole beginning counts: a few sizes come again in any backward. The first ones may lie in the
/// hook's own microsecond.
Recomputed recomputed(std::span<const Bytes> forward, std::span<const Bytes> backward) {
  constexpr std::size_t kBlurred = 2;
  Recomputed out;
  out.forward = forward.size();
  for (std::size_t f = 0; f <= std::min(kBlurred, forward.size()); ++f)
    for (std::size_t b = 0; b <= std::min(f == 0 ? kBlurred : 0, backward.size()); ++b) {
      const auto left = forward.subspan(f);
      const auto right = backward.subspan(b);
      const auto ends = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
      out.again = std::max(out.again, static_cast<std::size_t>(ends.first - left.begin()));
    }
  return out;
}

constexpr std::size_t kFewestActs = 6;  // shorter forwards can begin as their backwards do

std::optional<Recomputed> recomputed_in(const InferInput& input, const Passes& passes, bool traced) {
  if (!passes.complete()) return std::nullopt;
  const Nanoseconds forward = passes.pre_forward->end;
  const Nanoseconds backward = passes.pre_backward->end;
  const Nanoseconds forward_end = passes.post_forward->start;
  const Nanoseconds backward_end = passes.post_backward->start;
  const Recomputed out = traced ? recomputed(kernels_between(*input.trace, forward, forward_end),
                                             kernels_between(*input.trace, backward, backward_end))
                                : recomputed(requests_between(input, forward, forward_end),
                                             requests_between(input, backward, backward_end));
  return out.forward < kFewestActs ? std::nullopt : std::optional(out);
}

/// The share under which Settings::checkpoints_block() says the same of every block; none: no share does.
std::optional<std::uint32_t> share_of(const std::vector<bool>& checkpointed) {
  Settings settings;
  settings.checkpoint = Checkpoint::selective_layer;
  for (std::uint32_t share = 1; share < 100; ++share) {
    settings.checkpoint_share = share;
    bool same = true;
    for (std::uint32_t i = 0; i < checkpointed.size() && same; ++i)
      same = settings.checkpoints_block(i) == checkpointed[i];
    if (same) return share;
  }
  return std::nullopt;
}

}  // namespace

void infer_inputs(const InferInput& input, Inference& out) {
  const auto hooks = find_hooks(input.ranges, out.units);
  if (!hooks) return;
  out.inputs = inputs_of(input, *hooks);
  const auto attention = input.trace != nullptr ? attention_shape(*input.trace) : std::nullopt;
  for (const Bytes bytes : out.inputs) {
    if (!attention || bytes % (kTokenBytes * attention->batch) != 0) continue;
    const std::uint64_t sequence = bytes / kTokenBytes / attention->batch;
    if (sequence > 0xffffffffu || !fits(sequence, attention->tiles)) continue;
    out.settings.batch = attention->batch;
    out.settings.seq = static_cast<std::uint32_t>(sequence);
    const std::string from = fmt::format("the grid of an attention kernel, and inputs of {} bytes as int64", bytes);
    out.set({"batch", std::to_string(attention->batch), from});
    out.set({"seq", std::to_string(sequence), from});
    return;
  }
  if (out.inputs.empty())
    out.closed.emplace_back("batch and sequence length: no request between a step's start and its forward shows them");
  else
    out.closed.push_back(
        fmt::format("batch and sequence length: inputs of {} bytes do not tell them apart", out.inputs.front()));
}

void infer_checkpoint(const InferInput& input, Inference& out) {
  const bool traced = input.trace != nullptr && !input.trace_ranges.empty();
  const auto passes = passes_of(traced ? input.trace_ranges : input.ranges);
  std::vector<bool> checkpointed;
  bool selective = true;
  bool unknown = false;
  for (const RecordedUnit& unit : out.recorded) {
    const auto of = passes.find(unit.name);
    const auto found = of == passes.end() ? std::nullopt : recomputed_in(input, of->second, traced);
    if (!found) continue;
    const bool again = 2 * found->again >= found->forward;
    checkpointed.push_back(again);
    if (!again) continue;
    selective &= found->selective;
    unknown |= !found->all && !found->selective;
  }
  const auto count = static_cast<std::size_t>(std::count(checkpointed.begin(), checkpointed.end(), true));
  const char* acts = traced ? "kernels" : "requests";
  const auto say = [&](std::string from, bool settled) {
    out.set({"checkpoint", json_quoted(name(out.settings.checkpoint)), std::move(from), settled});
  };
  if (checkpointed.empty()) return;
  if (count == 0) return say(fmt::format("no unit's backward begins with the {} of its forward", acts), traced);
  if (unknown || (selective && count < checkpointed.size()))
    return say(fmt::format("{} units make a part of their forward again, by a policy that has no name here", count),
               false);
  if (count == checkpointed.size()) {
    out.settings.checkpoint = selective ? Checkpoint::selective_op : Checkpoint::blocks;
    return say(fmt::format("the backward of all {} units begins with the {} of their forward{}", count, acts,
                           selective ? " but attention and every other GEMM" : ""),
               true);
  }
  const auto share = share_of(checkpointed);
  if (share) {
    out.settings.checkpoint = Checkpoint::selective_layer;
    out.settings.checkpoint_share = *share;
  }
  say(fmt::format("the backward of {} of {} units begins with the {} of their forward", count, checkpointed.size(),
                  acts),
      share.has_value());
}

}  // namespace foreshard::traces

#include "traces/infer/user_program.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <iterator>
#include <map>
#include <optional>

#include "core/base/json_io.hpp"
#include "core/kernel/kernel_name.hpp"
#include "core/settings/settings_names.hpp"
#include "traces/capture/range_meaning.hpp"
#include "traces/capture/step_sizes.hpp"

namespace foreshard::traces {
namespace {

/// Kernels whose grid has the batch size in one dimension, and tiles of the sequence in the first:
/// flash_fwd_launch_template.h and mem_eff_attention/kernel_forward.h of aten/src/ATen/native/transformers/cuda
/// (PyTorch 2.11); cuDNN 9's reduction of a grouped-query backward, as recorded with heads of 64 (tiles of 16) and 128.
/// The tile's size stands in the name behind `tile`; else it is one of kReduceHeadTiles.
struct AttentionGrid {
  std::string_view kernel;
  std::size_t batch;
  std::string_view tile;
  std::size_t tile_argument;  ///< which number behind it
};
constexpr std::array kAttentionGrids{AttentionGrid{"fmha_reduce_head", 1, "", 0},
                                     AttentionGrid{"fmha_cutlassF", 2, "aligned_", 0},
                                     AttentionGrid{"flash_fwd_kernel", 1, "kernel_traits<", 1}};
constexpr std::array<std::uint32_t, 2> kReduceHeadTiles{8, 16};

/// The n-th of the numbers, separated by commas, behind the word; none: it is not there.
std::optional<std::uint32_t> number_behind(std::string_view text, std::string_view word, std::size_t n) {
  std::size_t at = text.find(word);
  if (at == std::string_view::npos) return std::nullopt;
  at += word.size();
  for (; n > 0; --n) {
    at = text.find(',', at);
    if (at == std::string_view::npos) return std::nullopt;
    at = text.find_first_not_of(" ", at + 1);
    if (at == std::string_view::npos) return std::nullopt;
  }
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
  if (error != std::errc() || value == 0) return std::nullopt;
  return value;
}

std::vector<std::uint32_t> tile_sizes_of(const AttentionGrid& grid, std::string_view name) {
  if (grid.tile.empty()) return {kReduceHeadTiles.begin(), kReduceHeadTiles.end()};
  const auto size = number_behind(name, grid.tile, grid.tile_argument);
  return size ? std::vector{*size} : std::vector<std::uint32_t>();
}

/// Of the kernels that were issued in [from, to). None where they disagree or there are none.
std::optional<AttentionShape> attention_shape(const ProfilerTrace& trace, Nanoseconds from, Nanoseconds to) {
  std::optional<AttentionShape> shape;
  for (const DeviceOpRecord& op : trace.run.device_ops) {
    if (op.kind != DeviceOpRecord::Kind::kernel || op.issue < from || op.issue >= to) continue;
    const std::string& name = trace.run.labels.text(op.label);
    for (const AttentionGrid& grid : kAttentionGrids) {
      if (name.find(grid.kernel) == std::string::npos) continue;
      const std::uint32_t batch = op.grid[grid.batch];
      std::vector<std::uint32_t> sizes = tile_sizes_of(grid, name);
      if (batch == 0 || (shape && (shape->batch != batch || shape->tile_sizes != sizes))) return std::nullopt;
      shape = AttentionShape{batch, std::max(shape ? shape->tiles : 0, op.grid[0]), std::move(sizes)};
    }
  }
  return shape;
}

bool fits(std::uint64_t sequence, const AttentionShape& shape) {
  return std::any_of(shape.tile_sizes.begin(), shape.tile_sizes.end(),
                     [&](std::uint32_t tile) { return (sequence + tile - 1) / tile == shape.tiles; });
}

/// Sequence lengths under which an input holds a batch of tokens and the attention kernel has its grid, with the
/// input's bytes; the longest first.
std::map<std::uint32_t, Bytes, std::greater<>> sequences_of(std::span<const Bytes> inputs,
                                                            const AttentionShape& shape) {
  std::map<std::uint32_t, Bytes, std::greater<>> out;
  for (const Bytes bytes : inputs) {
    if (bytes % (kTokenBytes * shape.batch) != 0) continue;
    const std::uint64_t sequence = bytes / kTokenBytes / shape.batch;
    if (sequence > 0 && sequence <= UINT32_MAX && fits(sequence, shape))
      out.emplace(static_cast<std::uint32_t>(sequence), bytes);
  }
  return out;
}

std::optional<AttentionShape> attention_shape(const ProfilerTrace& trace) {
  return attention_shape(trace, Nanoseconds{INT64_MIN}, Nanoseconds{INT64_MAX});
}

/// By step of the trace.
std::vector<std::optional<AttentionShape>> attention_of_steps(const InferInput& input, std::span<const Unit> units) {
  std::vector<std::optional<AttentionShape>> out;
  const auto hooks = find_hooks(input.trace_ranges, units);
  if (!hooks || input.trace == nullptr) return out;
  for (const StepPlaces& step : hooks->steps) out.push_back(attention_shape(*input.trace, step.begin, step.end));
  return out;
}

/// Leaves out tile sizes under which some step of the trace has no input: steps of several lengths tell them apart.
void settle_tiles(std::span<const Bytes> inputs, std::span<const std::optional<AttentionShape>> steps,
                  AttentionShape& shape) {
  const auto fits_all = [&](std::uint32_t tile) {
    return std::all_of(steps.begin(), steps.end(), [&](const std::optional<AttentionShape>& step) {
      return !step || !sequences_of(inputs, {step->batch, step->tiles, {tile}}).empty();
    });
  };
  std::vector<std::uint32_t> left;
  std::copy_if(shape.tile_sizes.begin(), shape.tile_sizes.end(), std::back_inserter(left), fits_all);
  if (!left.empty()) shape.tile_sizes = std::move(left);
}

/// "; profiled steps have 2048 and 1536", where they differ; else nothing.
std::string other_lengths(std::span<const Bytes> inputs, std::span<const std::optional<AttentionShape>> steps,
                          const std::vector<std::uint32_t>& tile_sizes) {
  std::vector<std::uint32_t> lengths;
  for (const std::optional<AttentionShape>& step : steps) {
    if (!step) continue;
    const auto fitting = sequences_of(inputs, {step->batch, step->tiles, tile_sizes});
    if (!fitting.empty() && std::find(lengths.begin(), lengths.end(), fitting.begin()->first) == lengths.end())
      lengths.push_back(fitting.begin()->first);
  }
  return lengths.size() < 2 ? std::string() : fmt::format("; profiled steps have {}", fmt::join(lengths, " and "));
}

std::string no_input_of(const AttentionShape& shape, std::span<const Bytes> inputs) {
  std::vector<std::string> lengths;
  for (const std::uint32_t tile : shape.tile_sizes)
    lengths.push_back(
        fmt::format("{} to {}", std::uint64_t{shape.tiles - 1} * tile + 1, std::uint64_t{shape.tiles} * tile));
  return fmt::format("attends to {} x {} tokens, and no input of the snapshot's steps has their bytes as int64 ({})",
                     shape.batch, fmt::join(lengths, " or "), fmt::join(inputs, ", "));
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
struct KernelCall {
  LabelId name;
  bool gemm = false;
  bool attention = false;
};

std::vector<KernelCall> kernels_between(const ProfilerTrace& trace, Nanoseconds from, Nanoseconds to) {
  const std::vector<DeviceOpRecord>& ops = trace.run.device_ops;
  std::vector<KernelCall> calls;
  auto it = std::lower_bound(ops.begin(), ops.end(), from,
                             [](const DeviceOpRecord& op, Nanoseconds time) { return op.issue < time; });
  for (; it != ops.end() && it->issue <= to; ++it)
    if (it->kind == DeviceOpRecord::Kind::kernel && it->stream == StreamId{0}) {
      const KernelClass kind = kernel_class({trace.run.labels.text(it->label), it->grid, 0});
      calls.push_back({it->label, kind == KernelClass::gemm || kind == KernelClass::gemm_single_wave,
                       kind == KernelClass::attention});
    }
  return calls;
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
  std::size_t forward = 0;  ///< calls of the forward
  std::size_t again = 0;    ///< of these, made again
  bool all = true;          ///< none in between was kept
  bool selective = false;   ///< what was kept is attention and every other GEMM, the first one included
};

/// Walks through `backward` for as long as its calls come on in `forward`. Checkpointing stops early: what no saved
/// tensor needs at the end of forward is not made again (torch/utils/checkpoint.py, early_stop). GEMMs are counted:
/// those of one name are not told apart.
Recomputed recomputed(std::span<const KernelCall> forward, std::span<const KernelCall> backward) {
  Recomputed out;
  out.forward = forward.size();
  std::size_t at = 0;
  std::size_t gemms = 0;
  bool attention = false;
  bool others_kept = false;
  for (const KernelCall& call : backward) {
    const auto found = std::find_if(forward.begin() + static_cast<std::ptrdiff_t>(at), forward.end(),
                                    [&](const KernelCall& a) { return a.name == call.name; });
    if (found == forward.end()) break;
    for (; at < static_cast<std::size_t>(found - forward.begin()); ++at) {
      out.all = false;
      others_kept |= !forward[at].gemm && !forward[at].attention;
    }
    gemms += call.gemm ? 1 : 0;
    attention |= call.attention;
    ++out.again;
    ++at;
  }
  const auto all_gemms = std::count_if(forward.begin(), forward.end(), [](const KernelCall& a) { return a.gemm; });
  const bool attends = std::any_of(forward.begin(), forward.end(), [](const KernelCall& a) { return a.attention; });
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

constexpr std::size_t kFewestCalls = 6;  // shorter forwards can begin as their backwards do

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
  return out.forward < kFewestCalls ? std::nullopt : std::optional(out);
}

/// Inductor names its kernels "triton_…" (torch/_inductor/codegen/triton.py).
bool is_compiled(const ProfilerTrace& trace) {
  return std::any_of(trace.run.device_ops.begin(), trace.run.device_ops.end(), [&](const DeviceOpRecord& op) {
    return op.kind == DeviceOpRecord::Kind::kernel && trace.run.labels.text(op.label).starts_with("triton_");
  });
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
  out.attention = attention_of_steps(input, out.units);
  auto attention = input.trace != nullptr ? attention_shape(*input.trace) : std::nullopt;
  if (attention) settle_tiles(out.inputs, out.attention, *attention);
  const auto sequences =
      attention ? sequences_of(out.inputs, *attention) : std::map<std::uint32_t, Bytes, std::greater<>>();
  if (!sequences.empty()) {
    const auto& [sequence, bytes] = *sequences.begin();
    out.settings.batch = attention->batch;
    out.settings.seq = sequence;
    const bool alone = sequences.size() == 1;
    const std::string from =
        fmt::format("the grid of an attention kernel, and inputs of {} bytes as int64{}", bytes,
                    alone ? std::string() : fmt::format("; inputs of {} bytes fit it too", sequences.rbegin()->second));
    const std::string others = other_lengths(out.inputs, out.attention, attention->tile_sizes);
    out.set({"batch", std::to_string(attention->batch), from});
    out.set({"seq", std::to_string(sequence), from + others, alone});
    return;
  }
  if (attention && !out.inputs.empty()) out.other_inputs = no_input_of(*attention, out.inputs);
  if (out.inputs.empty())
    out.unsettled.emplace_back(
        "batch and sequence length: no request between a step's start and its forward shows them");
  else
    out.unsettled.push_back(
        fmt::format("batch and sequence length: inputs of {} bytes do not tell them apart", out.inputs.front()));
}

void infer_checkpoint(const InferInput& input, Inference& out) {
  const bool traced = input.trace != nullptr && !input.trace_ranges.empty();
  const auto passes = passes_of(traced ? input.trace_ranges : input.ranges);
  std::vector<bool>& checkpointed = out.checkpointed;
  bool selective = true;
  bool unknown = false;
  bool partly = false;
  for (const RecordedUnit& unit : out.recorded) {
    const auto of = passes.find(unit.name);
    const auto found = of == passes.end() ? std::nullopt : recomputed_in(input, of->second, traced);
    if (!found) continue;
    const bool again = 2 * found->again >= found->forward;
    checkpointed.push_back(again);
    partly |= !again && found->again >= kFewestCalls;
    if (!again) continue;
    selective &= found->selective;
    unknown |= !found->all && !found->selective;
  }
  const auto count = static_cast<std::size_t>(std::count(checkpointed.begin(), checkpointed.end(), true));
  const char* calls = traced ? "kernels" : "requests";
  const auto say = [&](std::string from, bool settled) {
    out.set({"checkpoint", json_quoted(name(out.settings.checkpoint)), std::move(from), settled});
  };
  if (checkpointed.empty())
    return say(fmt::format("no unit has enough {} to tell a forward that is made again", calls), false);
  // Compiled blocks make a forward again in kernels of other names, fused with the backward's.
  if (count == 0 && traced && is_compiled(*input.trace))
    return say("no unit's backward begins with the kernels of its forward, but some are compiled", false);
  // A unit of several blocks begins with the last one's.
  if (count == 0 && partly) return say(fmt::format("some backwards begin with a few {} of a forward", calls), false);
  if (count == 0) return say(fmt::format("no unit's backward begins with the {} of its forward", calls), traced);
  if (unknown || (selective && count < checkpointed.size()))
    return say(fmt::format("{} units make a part of their forward again, by a policy that has no name here", count),
               false);
  if (count == checkpointed.size()) {
    out.settings.checkpoint = selective ? Checkpoint::selective_op : Checkpoint::blocks;
    return say(fmt::format("the backward of all {} units begins with the {} of their forward{}", count, calls,
                           selective ? " but attention and every other GEMM" : ""),
               true);
  }
  const auto share = share_of(checkpointed);
  if (share) {
    out.settings.checkpoint = Checkpoint::selective_layer;
    out.settings.checkpoint_share = *share;
  }
  say(fmt::format("the backward of {} of {} units begins with the {} of their forward", count, checkpointed.size(),
                  calls),
      share.has_value());
}

}  // namespace foreshard::traces

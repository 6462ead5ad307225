// The reduce side of FullyShard (fsdp2 semantics 3; FSDPParamGroup.post_backward, foreach_reduce and
// finalize_backward, PyTorch 2.11).
#include <algorithm>

#include "core/device/transport_traits.hpp"
#include "core/fsdp/fully_shard.hpp"
#include "core/shard/copy_metadata.hpp"

namespace foreshard {

void FullyShard::post_backward(ParamGroupId id) {
  Fresh fresh;
  for (const ParameterPlan& parameter : plan(id).parameters) fresh.push_back(backend_.gradient(parameter.id));
  accumulate(id, fresh);
  if (!sync_) {
    keep_unreduced(id, fresh);
    return;
  }
  reshard(id);
  reduce(id, fresh);
}

void FullyShard::accumulate(ParamGroupId id, const Fresh& fresh) {
  AddGradients add{id, {}};
  for (std::size_t i = 0; i < fresh.size(); ++i)
    if (fresh[i] && state(id).accumulated[i].valid()) add.sums.push_back({i, state(id).accumulated[i], *fresh[i]});
  if (add.sums.empty()) return;
  backend_.begin_section(Section::accumulate, id, Pass::backward);
  backend_.issue(add, StreamRole::compute);
  for (const AddGradients::Sum& sum : add.sums) backend_.free(sum.gradient);
  backend_.end_section();
}

void FullyShard::keep_unreduced(ParamGroupId id, const Fresh& fresh) {
  GroupState& s = state(id);
  const ParamGroupPlan& p = plan(id);
  reshard(id);
  if (!p.casts_gradients) return;  // .grad stays as it is, in the compute dtype
  bool casts = false;
  for (std::size_t i = 0; i < fresh.size(); ++i) casts |= fresh[i] && !s.accumulated[i].valid();
  if (!casts) return;
  backend_.begin_section(Section::reshard, id, Pass::backward);
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    if (!fresh[i] || s.accumulated[i].valid()) continue;
    const ParameterPlan& parameter = p.parameters[i];
    s.accumulated[i] =
        backend_.allocate({Buffer::accumulated_gradient, id, parameter.id, parameter.accumulated, StreamRole::compute})
            .buffer;
    backend_.issue(CastGradient{id, i, *fresh[i], s.accumulated[i]}, StreamRole::compute);
    backend_.free(*fresh[i]);
  }
  backend_.end_section();
}

/// Gradients of this microbatch, or accumulated ones: these count as well (3.1 step 3).
ChunkCat FullyShard::chunk_cat_of(ParamGroupId id, const Fresh& fresh) const {
  const GroupState& s = state(id);
  const ParamGroupPlan& p = plan(id);
  ChunkCat cat;
  cat.group = id;
  bool accumulated = false;
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    if (s.accumulated[i].valid())
      cat.inputs.push_back({i, s.accumulated[i], true});
    else if (fresh[i])
      cat.inputs.push_back({i, *fresh[i], false});
    accumulated |= s.accumulated[i].valid();
  }
  cat.sent = accumulated ? p.reduce : p.sent;  // sums of microbatches are in the reduce dtype already
  // Gradients are divided as they are copied. PyTorch divides the sums instead, by a kernel on them that is not planned
  // (foreach_reduce's postdivide factor where sums are forced; fsdp2 semantics 3.4).
  if (sums_only(settings_.reduce_scatter)) cat.scale = 1.0 / p.shard_ranks;
  return cat;
}

/// foreach_reduce's first loop: `torch.cat(torch.chunk(grad, ranks, dim), 0)` in place of each gradient that is cut
/// along another dimension than the first. `chunks` are views of a gradient, so that it goes when the next one is
/// chunked, and the last one with the function (3.2 step 1): that one is returned; invalid: there is none.
///
/// One of an even place goes a turn later: zip() fills the tuple that it gave last where nobody else has it, and under
/// enumerate(), which has it for a turn, that is every other time (CPython 3.12: zip_next, enum_next).
BufferRef FullyShard::rechunk_gradients(ParamGroupId id, ChunkCat& cat) {
  BufferRef chunked;
  std::size_t place = 0;  // of that one
  BufferRef zipped;       // zip's tuple alone has it
  for (std::size_t i = 0; i < cat.inputs.size(); ++i) {
    ChunkCat::Input& input = cat.inputs[i];
    const ParameterPlan& parameter = plan(id).parameters[input.parameter];
    if (i % 2 == 0) {
      backend_.free(zipped);
      zipped = {};
    }
    if (!parameter.rechunks) continue;
    if (place % 2 == 0 && i == place + 1)
      zipped = chunked;
    else
      backend_.free(chunked);
    chunked = input.gradient;
    place = i;
    if (input.accumulated) state(id).accumulated[input.parameter] = {};
    const Bytes bytes = input.accumulated ? parameter.accumulated : parameter.gradient;
    input.gradient = backend_.allocate({Buffer::gradient_chunks, id, parameter.id, bytes, StreamRole::compute}).buffer;
  }
  backend_.free(zipped);
  return chunked;
}

/// The inputs of groups before: one is kept alive across groups (3.1 step 6), or more where asked for.
void FullyShard::free_reduce_inputs(std::size_t most) {
  while (reduce_slots_.size() >= most) {
    const ReduceSlot oldest = reduce_slots_.front();
    reduce_slots_.pop_front();
    backend_.wait_event(StreamRole::compute, oldest.event);
    free_reduce_input(oldest);
  }
}

void FullyShard::free_reduce_input(const ReduceSlot& slot) {
  for (auto input = slot.input.rbegin(); input != slot.input.rend(); ++input) backend_.free(*input);
}

/// The end of backward: the compute stream waits for every input before any is freed. Python's list.clear() frees from
/// the back, and the loop's variable keeps the last until the callback returns.
void FullyShard::free_last_reduce_inputs() {
  if (reduce_slots_.empty()) return;
  for (const ReduceSlot& slot : reduce_slots_) backend_.wait_event(StreamRole::compute, slot.event);
  for (std::size_t i = reduce_slots_.size() - 1; i-- > 0;) free_reduce_input(reduce_slots_[i]);
  free_reduce_input(reduce_slots_.back());
  reduce_slots_.clear();
}

/// foreach_reduce_scatter_copy_in: the reduce-scatter's input buffer, filled.
Allocation FullyShard::copy_in_gradients(ParamGroupId id, ChunkCat& cat, const std::vector<Bytes>& chunks, Bytes bytes,
                                         MemoryKind kind) {
  const Allocation input = backend_.allocate({Buffer::reduce_input, id, {}, bytes, StreamRole::compute, kind});
  cat.output = input.buffer;
  const Bytes metadata_bytes = chunk_cat_metadata_bytes(chunks);
  const BufferRef metadata =
      backend_.allocate({Buffer::chunk_cat_metadata, id, {}, metadata_bytes, StreamRole::compute}).buffer;
  backend_.issue(cat, StreamRole::compute);
  backend_.free(metadata);
  return input;
}

/// foreach_reduce clears its list of copied gradients, from the back. Its loop variables (the loop is for more than one
/// shard rank) keep the last one as it was before the loop, and `chunked`: those are returned, in the order in which
/// they go when it returns (3.2 step 4).
std::vector<BufferRef> FullyShard::free_copied_gradients(ParamGroupId id, const ChunkCat& cat, BufferRef chunked) {
  const ParamGroupPlan& p = plan(id);
  const std::size_t last = cat.inputs.size() - 1;
  const bool loops = rules_.keeps_last_gradient(p.shard_ranks);
  std::vector<BufferRef> kept;
  for (std::size_t k = cat.inputs.size(); k-- > 0;) {
    const ChunkCat::Input& input = cat.inputs[k];
    if (input.accumulated) state(id).accumulated[input.parameter] = {};
    if (loops && k == last && !p.parameters[input.parameter].rechunks)
      kept.push_back(input.gradient);
    else
      backend_.free(input.gradient);
  }
  if (loops && chunked.valid())
    kept.push_back(chunked);
  else
    backend_.free(chunked);
  return kept;
}

void FullyShard::reduce(ParamGroupId id, const Fresh& fresh) {
  GroupState& s = state(id);
  const ParamGroupPlan& p = plan(id);
  ChunkCat cat = chunk_cat_of(id, fresh);
  // 2.12 and later: under FSDP::post_backward_rs_wait, a range of its own, by the group that backward reaches first.
  const bool first = id.index + 1 == plan(id.unit).groups.size();
  if (rules_.frees_input_before_idle_group && first)
    free_reduce_inputs(rules_.keeps_inputs_in_flight ? settings_.reduce_scatter_max_input_buffers : 1);
  if (cat.inputs.empty()) return;
  std::vector<Bytes> chunks;
  Bytes output_bytes = 0;
  Bytes input_bytes = 0;
  for (const ChunkCat::Input& input : cat.inputs) {
    const ParameterPlan& parameter = p.parameters[input.parameter];
    chunks.push_back(cat.sent == p.sent ? parameter.sent_chunk : parameter.reduce_chunk);
    output_bytes += parameter.reduce_chunk;
    input_bytes += chunks.back() * p.shard_ranks;
  }
  backend_.begin_section(Section::reduce, id, Pass::backward);
  if (!rules_.frees_input_before_idle_group) free_reduce_inputs(1);
  if (s.post_reduce_event) backend_.wait_event(StreamRole::compute, *s.post_reduce_event);
  const MemoryKind kind = memory_of(settings_.reduce_scatter);
  Allocation input;
  std::vector<BufferRef> read;  // by the reduce-scatter
  std::vector<BufferRef> kept;  // gradients that outlive their copy
  if (p.reduces_gradients) {
    for (const ChunkCat::Input& gradient : cat.inputs) read.push_back(gradient.gradient);
  } else {
    const BufferRef chunked = rechunk_gradients(id, cat);
    input = copy_in_gradients(id, cat, chunks, input_bytes, kind);
    read.push_back(input.buffer);
    kept = free_copied_gradients(id, cat, chunked);
  }
  backend_.wait_event(StreamRole::reduce_scatter, backend_.record_event(StreamRole::compute));
  const Allocation output =
      backend_.allocate({Buffer::reduce_output, id, {}, output_bytes, StreamRole::reduce_scatter, kind});
  for (const Allocation& block : {input, output})
    if (kind == MemoryKind::symmetric && block.new_segment) keep_rendezvous_arrays(id, StreamRole::reduce_scatter);
  s.reduced.clear();
  for (const ChunkCat::Input& taken : cat.inputs) s.reduced.push_back(taken.parameter);
  reduce_collectives(id, cat, output.buffer, input_bytes, output_bytes);
  reduce_slots_.push_back({std::move(read), backend_.record_event(StreamRole::reduce_scatter)});
  if (settings_.reduce_scatter_release.value_or(Release::automatic) == Release::record_stream)
    backend_.record_stream(input.buffer, StreamRole::reduce_scatter);
  keep_sharded_gradients(id, output.buffer, output_bytes);
  free_all(kept);
  if (settings_.offload) {
    backend_.issue(OffloadGradients{id, s.sharded_gradients}, StreamRole::reduce_scatter);
    note_post_reduce(s, StreamRole::reduce_scatter);
    backend_.free(s.sharded_gradients);
    s.sharded_gradients = {};
  }
  backend_.end_section();
  if (settings_.optimizer_overlap == OptimizerOverlap::backward) step_behind_reduce(id);
}

void FullyShard::free_stepped_gradients(std::size_t most) {
  while (stepped_slots_.size() > most) {
    const SteppedSlot oldest = stepped_slots_.front();
    stepped_slots_.pop_front();
    backend_.wait_event(oldest.stream, oldest.event);
    backend_.free(oldest.gradients);
  }
}

/// On the optimizer's stream, when the group's gradients are whole.
void FullyShard::step_optimizer(ParamGroupId id) {
  GroupState& s = state(id);
  backend_.wait_event(StreamRole::optimizer, *s.reduced_event);
  backend_.begin_section(Section::optimizer, id, Pass::backward);
  backend_.issue(StepOptimizer{id, s.sharded_gradients}, StreamRole::optimizer);
  backend_.end_section();
  find_float8_amaxes(id);
  s.reduced_event.reset();
  s.stepped = backend_.record_event(StreamRole::optimizer);
  s.step_awaited = false;
}

/// The gradients' memory comes back two groups later: the reduce-scatters between do not wait for the optimizer.
void FullyShard::step_behind_reduce(ParamGroupId id) {
  constexpr std::size_t kInFlight = 2;
  GroupState& s = state(id);
  free_stepped_gradients(kInFlight - 1);
  step_optimizer(id);
  stepped_slots_.push_back({s.sharded_gradients, s.gradients_of, *s.stepped});
  s.sharded_gradients = {};
}

void FullyShard::step_optimizers() {
  for (std::uint32_t i = 0; i < states_.size(); ++i)
    each_group(UnitId{i}, [&](ParamGroupId id) {
      if (state(id).reduced_event) step_optimizer(id);
    });
}

void FullyShard::reduce_collectives(ParamGroupId id, const ChunkCat& sent, BufferRef output, Bytes input_bytes,
                                    Bytes output_bytes) {
  GroupState& s = state(id);
  const ParamGroupPlan& p = plan(id);
  if (p.shard_ranks > 1) {
    CollectiveWork work{CollectiveKind::reduce_scatter, settings_.reduce_scatter, input_bytes, {}};
    work.dtype = sent.sent;
    if (sent.sent != p.reduce) work.output_dtype = p.reduce;
    if (sent.scale != 1) work.reduction = Reduction::sum;
    ReduceScatter scatter{id, sent.output, output, work, {}};
    if (p.reduces_gradients) scatter.gradients = sent.inputs;
    backend_.issue(scatter, StreamRole::reduce_scatter);
  } else {
    // foreach_reduce copies the quotient where there is a factor; NCCL's reductions divide by themselves.
    BufferRef divided;
    if (p.divides)
      divided = backend_.allocate({Buffer::divided_input, id, {}, input_bytes, StreamRole::reduce_scatter}).buffer;
    backend_.issue(CopyReduced{id, sent.output, output, output_bytes / itemsize(p.reduce)}, StreamRole::reduce_scatter);
    backend_.free(divided);
  }
  if (settings_.replicate <= 1) return;
  const EventId scattered = backend_.record_event(StreamRole::reduce_scatter);
  backend_.wait_event(StreamRole::all_reduce, scattered);
  CollectiveWork work{CollectiveKind::all_reduce, Transport::nccl, output_bytes, {}};
  work.dtype = p.reduce;
  backend_.issue(AllReduce{id, output, work}, StreamRole::all_reduce);
  s.all_reduce_event = backend_.record_event(StreamRole::all_reduce);
}

void FullyShard::keep_sharded_gradients(ParamGroupId id, BufferRef output, Bytes output_bytes) {
  GroupState& s = state(id);
  const ParamGroupPlan& p = plan(id);
  const bool hybrid = settings_.replicate > 1;
  const StreamRole post = post_reduce_stream();
  const std::uint64_t numel = output_bytes / itemsize(p.reduce);
  BufferRef gradients = output;
  if (p.casts_back) {
    const Bytes bytes = numel * p.cast_output_itemsize;
    gradients = backend_.allocate({Buffer::cast_output, id, {}, bytes, post}).buffer;
    backend_.issue(CastBack{id, output, gradients, numel}, post);
    if (hybrid)
      s.all_reduce_input = output;  // held until finalize_backward (3.5)
    else
      backend_.free(output);
  }
  if (s.sharded_gradients.valid()) {  // of an earlier backward: added to, before the event (foreach_reduce)
    backend_.issue(AddReduced{id, s.sharded_gradients, gradients, numel}, post);
    backend_.free(gradients);
  } else {
    s.sharded_gradients = gradients;
    s.gradients_of = p.casts_back ? post : StreamRole::reduce_scatter;
  }
  if (settings_.optimizer_overlap == OptimizerOverlap::none)
    note_post_reduce(s, post);
  else
    s.reduced_event = backend_.record_event(post);  // the optimizer waits for it, not the compute stream
}

void FullyShard::note_post_reduce(GroupState& s, StreamRole stream) {
  const EventId event = backend_.record_event(stream);
  s.post_reduce_event = event;
  const auto same = [stream](const auto& entry) { return entry.first == stream; };
  const auto last = std::find_if(last_post_reduce_.begin(), last_post_reduce_.end(), same);
  if (last == last_post_reduce_.end())
    last_post_reduce_.emplace_back(stream, event);
  else
    last->second = event;
}

/// The compute stream waits for what the backward reduced.
void FullyShard::finalize_waits(GroupState& s) {
  if (rules_.waits_once_a_stream) {  // the first group to come waits for all
    for (const auto& [stream, event] : last_post_reduce_) backend_.wait_event(StreamRole::compute, event);
  } else {
    if (s.post_reduce_event) backend_.wait_event(StreamRole::compute, *s.post_reduce_event);
  }
  last_post_reduce_.clear();
  if (s.post_reduce_event && settings_.offload) backend_.synchronize_event(*s.post_reduce_event);
  s.post_reduce_event.reset();
  // Where the optimizer overlaps, no event above stands for it, and its input is freed next.
  const bool alone = !rules_.waits_once_a_stream || settings_.optimizer_overlap != OptimizerOverlap::none;
  if (s.all_reduce_event && alone) backend_.wait_event(StreamRole::compute, *s.all_reduce_event);
  s.all_reduce_event.reset();
}

void FullyShard::finalize(ParamGroupId id) {
  GroupState& s = state(id);
  finalize_waits(s);
  backend_.free(s.all_reduce_input);
  s.all_reduce_input = {};
  if (s.pending) {  // an all-gather nobody used (4.3)
    if (!s.pending->trivial) {
      const EventId gathered = s.pending->work.value_or(s.pending->event);
      backend_.wait_event(StreamRole::compute, gathered);
      // Else the next forward's copy-in, which may reuse the block, and the optimizer, which writes what is gathered,
      // wait for the compute stream.
      if (settings_.optimizer_overlap != OptimizerOverlap::none) {
        backend_.wait_event(StreamRole::optimizer, gathered);
        backend_.wait_event(s.pending->stream, gathered);
      }
    }
    backend_.free(s.pending->block);
    s.pending.reset();
  }
  s.post_forward_indices.clear();
}

}  // namespace foreshard

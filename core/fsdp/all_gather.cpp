// The all-gather side of FullyShard (fsdp2 semantics 2; foreach_all_gather, foreach_all_gather_copy_out
// and FSDPParamGroup.unshard / wait_for_unshard / reshard, PyTorch 2.11).
#include "core/device/transport_traits.hpp"
#include "core/fsdp/fully_shard.hpp"

namespace foreshard {

void FullyShard::unshard(ParamGroupId id) {
  GroupState& s = state(id);
  if (s.pending || s.sharded == Sharded::unsharded) return;
  if (s.reshard_event) {
    wait_gather_streams(*s.reshard_event);
    s.reshard_event.reset();
  }
  Gather gather;
  gather.small = s.sharded == Sharded::sharded_post_forward;
  gather.trivial = plan(id).shard_ranks == 1;
  gather.contiguous = plan(id).contiguous > 0 && !gather.small;
  gather.kept = plan(id).kept_input > 0 && !gather.small;
  gather.async = settings_.unshard_async && !gather.trivial;
  // Which stream (2.1): the all-gather streams only for a synchronous gather of FORWARD or PRE_BACKWARD.
  const bool own_streams = !gather.async && state(id.unit).training != Training::idle;
  gather.stream = own_streams ? StreamRole::copy_in : StreamRole::compute;
  if (s.stepped && !s.step_awaited) {
    backend_.wait_event(gather.trivial ? StreamRole::compute : gather.stream, *s.stepped);
    s.step_awaited = true;
  }
  if (!gather.trivial) all_gather(id, gather);
  s.pending = gather;
}

/// The buffers that copy-in makes on its way into the block: one flat cast of the shards (the deferred foreach-cast
/// batch; after an int reshard a plain copy), or a device copy of each offloaded shard.
std::vector<BufferRef> FullyShard::allocate_inputs(ParamGroupId id, const Gather& gather) {
  const ParamGroupPlan& p = plan(id);
  const StreamRole memory = settings_.gather_alloc == GatherAlloc::compute ? StreamRole::compute : gather.stream;
  std::vector<BufferRef> made;
  if (gather.small || !settings_.offload) {
    const Bytes bytes = gather.small ? p.small_flat : p.flat_cast;
    if (p.casts) made.push_back(backend_.allocate({Buffer::flat_cast, id, {}, bytes, memory}).buffer);
    return made;
  }
  for (const ParameterPlan& parameter : p.parameters) {
    BufferRef copy = backend_.allocate({Buffer::offload_input, id, parameter.id, parameter.shard, memory}).buffer;
    if (p.casts) {
      const BufferRef cast =
          backend_.allocate({Buffer::offload_cast, id, parameter.id, parameter.cast_shard, memory}).buffer;
      backend_.free(copy);
      copy = cast;
    }
    made.push_back(copy);
  }
  return made;
}

/// This rank's part of the all-gather. Where the optimizer writes it, it is copied once, as the shards were
/// initialised. Only this rank's copy engines read it, before the stream of the all-gather goes on (peers are pushed
/// to), so the optimizer needs no word of theirs: its step comes behind what waited for the all-gather.
void FullyShard::copy_in(ParamGroupId id, const Gather& gather, StreamRole memory) {
  GroupState& s = state(id);
  CopyIn copy{id, gather.over(), {}, gather.block, gather.contiguous, false, {}};
  if (gather.small) copy.parts = s.parts;
  if (plan(id).float8_weights > 0) copy.float8 = float8_;
  if (gather.kept) {
    if (s.kept_input.valid()) return;
    s.kept_input = backend_.allocate({Buffer::kept_input, id, {}, plan(id).kept_input, memory}).buffer;
    copy = CopyIn{id, gather.over(), {}, s.kept_input, false, true, {}};
  }
  backend_.issue(copy, gather.stream);
}

void FullyShard::all_gather(ParamGroupId id, Gather& gather) {
  const ParamGroupPlan& p = plan(id);
  const StreamRole memory = settings_.gather_alloc == GatherAlloc::compute ? StreamRole::compute : gather.stream;
  const StreamRole launch = gather.stream == StreamRole::copy_in ? StreamRole::all_gather : StreamRole::compute;
  const MemoryKind kind = memory_of(settings_.all_gather);
  backend_.begin_section(Section::all_gather, id, pass_of(id.unit));
  if (memory != gather.stream)  // memory of the compute stream: its last user there must be done before copy-in
    backend_.wait_event(gather.stream, backend_.record_event(StreamRole::compute));
  std::vector<BufferRef> inputs;
  BufferRequest request{Buffer::gather, id, {}, p.gather, memory, kind};
  if (gather.contiguous) {
    // The unit that was resharded last may still run: what waits for it would wait for its compute.
    free_resharded_blocks(false);
    request.buffer = Buffer::contiguous;
    request.bytes = p.contiguous;
    state(id).contiguous_of = memory;
  } else if (!gather.kept) {
    inputs = allocate_inputs(id, gather);
  }
  const Allocation block = backend_.allocate(request);
  gather.block = block.buffer;
  copy_in(id, gather, memory);
  if (launch != gather.stream) backend_.wait_event(launch, backend_.record_event(gather.stream));
  if (kind == MemoryKind::symmetric && block.new_segment) keep_rendezvous_arrays(id, launch);
  // Async collectives run on the process group's own stream, and so do those whose buffers are marked by
  // record_stream, as c10d did before 2.8 (5.2, 5.7).
  const bool own_stream = gather.async || record_stream_gathers();
  const StreamRole runs_on = own_stream ? StreamRole::process_group : launch;
  if (own_stream) backend_.wait_event(runs_on, backend_.record_event(launch));
  CollectiveWork work{CollectiveKind::all_gather, settings_.all_gather, p.gather, {}};
  work.dtype = p.float8_weights > 0 ? DType::uint8 : p.compute;  // _get_all_gather_input_metadatas
  const BufferRef input = gather.kept ? state(id).kept_input : BufferRef{};
  backend_.issue(AllGather{id, gather.over(), block.buffer, input, work, gather.contiguous}, runs_on);
  if (own_stream) {
    const EventId end = backend_.record_event(runs_on);
    if (gather.async)
      gather.work = end;
    else
      backend_.wait_event(launch, end);
  }
  if (record_stream_gathers()) backend_.record_stream(gather.block, StreamRole::process_group);
  gather.event = backend_.record_event(launch);
  for (auto it = inputs.rbegin(); it != inputs.rend(); ++it) backend_.free(*it);
  backend_.end_section();
}

/// Rendezvous of a new symmetric segment keeps two arrays of one pointer per rank (fsdp2 semantics 7.1).
void FullyShard::keep_rendezvous_arrays(ParamGroupId id, StreamRole stream) {
  for (int i = 0; i < 2; ++i)
    (void)backend_.allocate({Buffer::symmetric_array, id, {}, 8 * plan(id).shard_ranks, stream});
}

void FullyShard::wait_for_unshard(ParamGroupId id) {
  GroupState& s = state(id);
  if (!s.pending) return;
  if (s.pending->contiguous) {
    use_in_place(id, *s.pending);
    return;
  }
  const bool forward = state(id.unit).training == Training::forward;
  std::optional<GatherSlot> previous;
  if (forward && gather_slot_) {
    wait_gather_streams(gather_slot_->copied_out);
    previous = gather_slot_;
    gather_slot_.reset();
    if (rules_.frees_gather_first) {
      backend_.free(previous->gather.block);
      previous.reset();
    }  // else its block lives until this function returns (2.4)
  }
  const Gather gather = *s.pending;
  BufferRef last_input;
  if (gather.trivial)
    last_input = copy_out_shards(id);
  else
    copy_out(id, gather);
  free_all(s.parts);
  s.sharded = Sharded::unsharded;
  const EventId copied_out = backend_.record_event(StreamRole::compute);
  s.pending.reset();
  if (forward && !gather.async && !gather.trivial) {
    gather_slot_ = GatherSlot{gather, copied_out};
  } else {
    wait_gather_streams(copied_out);
    backend_.free(gather.block);
  }
  if (previous) backend_.free(previous->gather.block);
  backend_.free(last_input);
}

/// Nothing is copied: the block is the parameters until they are resharded.
void FullyShard::use_in_place(ParamGroupId id, const Gather& gather) {
  GroupState& s = state(id);
  backend_.wait_event(StreamRole::compute, gather.work.value_or(gather.event));
  s.contiguous = gather.block;
  s.sharded = Sharded::unsharded;
  s.pending.reset();
}

void FullyShard::free_resharded_blocks(bool all) {
  while (!resharded_slots_.empty() && (all || resharded_slots_.front().unit != resharded_slots_.back().unit)) {
    const ReshardedSlot oldest = resharded_slots_.front();
    resharded_slots_.pop_front();
    backend_.wait_event(StreamRole::copy_in, oldest.event);
    backend_.free(oldest.block);
  }
}

/// A block of the copy-in stream comes back when the compute stream has passed its last kernel.
void FullyShard::reshard_contiguous(ParamGroupId id) {
  GroupState& s = state(id);
  if (!s.contiguous.valid()) return;
  if (s.contiguous_of == StreamRole::copy_in)
    resharded_slots_.push_back({id.unit, s.contiguous, backend_.record_event(StreamRole::compute)});
  else
    backend_.free(s.contiguous);
  s.contiguous = {};
}

void FullyShard::copy_out(ParamGroupId id, const Gather& gather) {
  GroupState& s = state(id);
  const ParamGroupPlan& p = plan(id);
  backend_.begin_section(Section::copy_out, id, pass_of(id.unit));
  backend_.wait_event(StreamRole::compute, gather.event);
  if (gather.work) backend_.wait_event(StreamRole::compute, *gather.work);
  std::vector<BufferRef> chunks;
  for (std::size_t i = 0; i < p.parameters.size(); ++i) {
    const ParameterPlan& parameter = p.parameters[i];
    const auto allocate = [&](Buffer buffer) {
      return backend_.allocate({buffer, id, parameter.id, parameter.unsharded, StreamRole::compute}).buffer;
    };
    s.unsharded[i] = allocate(Buffer::unsharded);
    if (parameter.rechunks) chunks.push_back(allocate(Buffer::gathered_chunks));
  }
  const Bytes bytes = gather.small ? p.small_split_metadata : p.split_metadata;
  const BufferRef metadata = backend_.allocate({Buffer::split_metadata, id, {}, bytes, StreamRole::compute}).buffer;
  backend_.issue(CopyOut{id, gather.over(), gather.block, s.unsharded}, StreamRole::compute);
  backend_.free(metadata);
  free_chunks(chunks);
  backend_.end_section();
}

/// foreach_all_gather_copy_out's: its list of views goes from the back, the last torch.cat's chunks with the function.
void FullyShard::free_chunks(const std::vector<BufferRef>& chunks) {
  if (chunks.empty()) return;
  for (std::size_t i = chunks.size() - 1; i-- > 0;) backend_.free(chunks[i]);
  backend_.free(chunks.back());
}

/// A shard group of one rank (2.7): no collective; inputs are made one parameter at a time. The loop's variable keeps
/// each until the next is made, and the last, which is returned, until wait_for_unshard returns.
BufferRef FullyShard::copy_out_shards(ParamGroupId id) {
  GroupState& s = state(id);
  const ParamGroupPlan& p = plan(id);
  const auto allocate = [&](Buffer buffer, const ParameterPlan& parameter, Bytes bytes) {
    return backend_.allocate({buffer, id, parameter.id, bytes, StreamRole::compute}).buffer;
  };
  backend_.begin_section(Section::copy_out, id, pass_of(id.unit));
  BufferRef before;
  for (std::size_t i = 0; i < p.parameters.size(); ++i) {
    const ParameterPlan& parameter = p.parameters[i];
    BufferRef input;
    if (settings_.offload) input = allocate(Buffer::offload_input, parameter, parameter.shard);
    if (p.casts) {
      const BufferRef cast = allocate(Buffer::offload_cast, parameter, parameter.cast_shard);
      backend_.free(input);
      input = cast;
    }
    backend_.free(before);
    before = input;
    s.unsharded[i] = allocate(Buffer::unsharded, parameter, parameter.unsharded);
  }
  backend_.issue(CopyOutShards{id, s.unsharded}, StreamRole::compute);
  backend_.end_section();
  return before;
}

void FullyShard::wait_gather_streams(EventId event) {
  backend_.wait_event(StreamRole::copy_in, event);
  backend_.wait_event(StreamRole::all_gather, event);
}

void FullyShard::reshard(ParamGroupId id) {
  GroupState& s = state(id);
  if (s.sharded != Sharded::unsharded) return;
  if (state(id.unit).training == Training::forward) {
    const Reshard::Kind kind = plan(id.unit).reshard.kind;
    if (kind == Reshard::Kind::never) return;
    if (kind == Reshard::Kind::group) {
      reshard_to_small_group(id);
      return;
    }
  }
  free_unsharded(id);
  s.sharded = Sharded::sharded;
}

void FullyShard::reshard_to_small_group(ParamGroupId id) {
  GroupState& s = state(id);
  const ParamGroupPlan& p = plan(id);
  backend_.begin_section(Section::reshard, id, Pass::forward);
  for (std::size_t i = 0; i < p.parameters.size(); ++i) {
    const ParameterPlan& parameter = p.parameters[i];
    s.parts[i] = backend_.allocate({Buffer::clone, id, parameter.id, parameter.clone, StreamRole::compute}).buffer;
    backend_.issue(KeepPart{id, i, s.unsharded[i], s.parts[i]}, StreamRole::compute);
    backend_.free(s.unsharded[i]);
    s.unsharded[i] = {};
  }
  backend_.end_section();
  s.sharded = Sharded::sharded_post_forward;
  s.reshard_event = backend_.record_event(StreamRole::compute);
}

void FullyShard::free_unsharded(ParamGroupId id) {
  reshard_contiguous(id);
  free_all(state(id).unsharded);
}

void FullyShard::free_all(std::vector<BufferRef>& buffers) {
  for (BufferRef& buffer : buffers) {
    backend_.free(buffer);
    buffer = {};
  }
}

void FullyShard::drop_gather_slot() {
  if (!gather_slot_) return;
  wait_gather_streams(gather_slot_->copied_out);
  backend_.free(gather_slot_->gather.block);
  gather_slot_.reset();
}

/// FSDPCommContext.release_all_gather_state_on_current_stream (main).
void FullyShard::drop_gather_slot_behind_backward() {
  if (!gather_slot_) return;
  backend_.wait_event(StreamRole::compute, gather_slot_->copied_out);
  backend_.free(gather_slot_->gather.block);
  gather_slot_.reset();
}

}  // namespace foreshard

// The all-gather side of FullyShard (fsdp2 semantics 2; foreach_all_gather, foreach_all_gather_copy_out
// and FSDPParamGroup.unshard / wait_for_unshard / reshard, PyTorch 2.11).
#include "core/fsdp/fully_shard.hpp"

namespace foreshard {

void FullyShard::unshard(UnitId unit) {
  UnitState& s = state(unit);
  if (s.pending || s.sharded == Sharded::unsharded || plan(unit).parameters.empty()) return;
  if (s.reshard_event) {
    wait_gather_streams(*s.reshard_event);
    s.reshard_event.reset();
  }
  Gather gather;
  gather.small = s.sharded == Sharded::sharded_post_forward;
  gather.trivial = plan(unit).shard_ranks == 1;
  gather.async = settings_.unshard_async && !gather.trivial;
  // Stream choice (2.1): the gather streams only for a synchronous gather of FORWARD or PRE_BACKWARD.
  const bool own_streams = !gather.async && s.training != Training::idle;
  gather.stream = own_streams ? StreamRole::copy_in : StreamRole::compute;
  if (!gather.trivial) issue_gather(unit, gather);
  s.pending = gather;
}

void FullyShard::gather_inputs(UnitId unit, const Gather& gather, BufferRef& flat, std::vector<BufferRef>& copies) {
  const UnitPlan& p = plan(unit);
  const StreamRole memory = settings_.gather_alloc == GatherAlloc::compute ? StreamRole::compute : gather.stream;
  if (gather.small || !settings_.offload) {  // the deferred foreach-cast batch; after an int reshard a plain copy
    const Bytes bytes = gather.small ? p.small_flat : p.flat_cast;
    if (p.casts) flat = issuer_.allocate({Buffer::flat_cast, unit, {}, bytes, memory});
    return;
  }
  for (const ParameterPlan& parameter : p.parameters) {
    BufferRef copy = issuer_.allocate({Buffer::offload_input, unit, parameter.id, parameter.shard, memory});
    if (p.casts) {
      const BufferRef cast = issuer_.allocate({Buffer::offload_cast, unit, parameter.id, parameter.cast_shard, memory});
      issuer_.free(copy);
      copy = cast;
    }
    copies.push_back(copy);
  }
}

void FullyShard::issue_gather(UnitId unit, Gather& gather) {
  const UnitPlan& p = plan(unit);
  const StreamRole memory = settings_.gather_alloc == GatherAlloc::compute ? StreamRole::compute : gather.stream;
  const StreamRole launch = gather.stream == StreamRole::copy_in ? StreamRole::all_gather : StreamRole::compute;
  const MemoryKind kind = memory_of(settings_.all_gather);
  issuer_.begin_section(Section::all_gather, unit, pass_of(state(unit)));
  BufferRef flat;
  std::vector<BufferRef> copies;
  if (memory != gather.stream)  // memory of the compute stream: its last user there must be done before copy-in
    issuer_.wait_event(gather.stream, issuer_.record_event(StreamRole::compute));
  gather_inputs(unit, gather, flat, copies);
  gather.block = issuer_.allocate({Buffer::gather, unit, {}, p.gather, memory, kind});
  const bool rendezvous = kind == MemoryKind::symmetric && issuer_.took_new_segment();
  issuer_.issue(SectionRole::offload_copy, gather.stream);
  issuer_.issue(SectionRole::cast, gather.stream);
  issuer_.issue(SectionRole::copy_in, gather.stream);
  if (launch != gather.stream) issuer_.wait_event(launch, issuer_.record_event(gather.stream));
  if (rendezvous) keep_rendezvous_arrays(unit, launch);
  // Async collectives run on the process group's own stream, and so do those whose buffers are marked by
  // record_stream, as c10d did before 2.8 (5.2, 5.7).
  const bool own_stream = gather.async || record_stream_gathers();
  const StreamRole runs_on = own_stream ? StreamRole::process_group : launch;
  if (own_stream) issuer_.wait_event(runs_on, issuer_.record_event(launch));
  CollectiveWork work{CollectiveKind::all_gather, settings_.all_gather, p.gather, {}};
  issuer_.issue_collective(runs_on, gather.small ? CommunicatorRole::post_forward : CommunicatorRole::shard, unit,
                           work);
  if (own_stream) {
    const EventId end = issuer_.record_event(runs_on);
    if (gather.async)
      gather.work = end;
    else
      issuer_.wait_event(launch, end);
  }
  if (record_stream_gathers()) issuer_.record_stream(gather.block, StreamRole::process_group);
  gather.event = issuer_.record_event(launch);
  issuer_.free(flat);
  for (auto it = copies.rbegin(); it != copies.rend(); ++it) issuer_.free(*it);
  issuer_.end_section();
}

/// Rendezvous of a new symmetric segment keeps two arrays of one pointer per rank (fsdp2 semantics 7.1).
void FullyShard::keep_rendezvous_arrays(UnitId unit, StreamRole stream) {
  for (int i = 0; i < 2; ++i)
    (void)issuer_.allocate({Buffer::symmetric_array, unit, {}, 8 * plan(unit).shard_ranks, stream});
}

void FullyShard::wait_for_unshard(UnitId unit) {
  UnitState& s = state(unit);
  if (!s.pending) return;
  const bool forward = s.training == Training::forward;
  std::optional<GatherSlot> previous;
  if (forward && gather_slot_) {
    wait_gather_streams(gather_slot_->copied_out);
    previous = gather_slot_;  // its block lives until this function returns (2.4)
    gather_slot_.reset();
  }
  const Gather gather = *s.pending;
  if (gather.trivial)
    copy_out_trivial(unit);
  else
    copy_out(unit, gather);
  for (BufferRef& clone : s.clones) {
    issuer_.free(clone);
    clone = {};
  }
  s.sharded = Sharded::unsharded;
  const EventId copied_out = issuer_.record_event(StreamRole::compute);
  s.pending.reset();
  if (forward && !gather.async && !gather.trivial) {
    gather_slot_ = GatherSlot{gather, copied_out};
  } else {
    wait_gather_streams(copied_out);
    issuer_.free(gather.block);
  }
  if (previous) issuer_.free(previous->gather.block);
}

void FullyShard::copy_out(UnitId unit, const Gather& gather) {
  UnitState& s = state(unit);
  const UnitPlan& p = plan(unit);
  issuer_.begin_section(Section::copy_out, unit, pass_of(s));
  issuer_.wait_event(StreamRole::compute, gather.event);
  if (gather.work) issuer_.wait_event(StreamRole::compute, *gather.work);
  for (std::size_t i = 0; i < p.parameters.size(); ++i)
    s.unsharded[i] =
        issuer_.allocate({Buffer::unsharded, unit, p.parameters[i].id, p.parameters[i].unsharded, StreamRole::compute});
  const Bytes metadata = gather.small ? p.small_split_metadata : p.split_metadata;
  const BufferRef buffer = issuer_.allocate({Buffer::split_metadata, unit, {}, metadata, StreamRole::compute});
  issuer_.issue(SectionRole::metadata_copy, StreamRole::compute);
  issuer_.issue(SectionRole::split, StreamRole::compute);
  issuer_.free(buffer);
  issuer_.end_section();
}

void FullyShard::copy_out_trivial(UnitId unit) {
  // A shard group of one rank (2.7): no collective; inputs are made one parameter at a time.
  UnitState& s = state(unit);
  const UnitPlan& p = plan(unit);
  issuer_.begin_section(Section::copy_out, unit, pass_of(s));
  for (std::size_t i = 0; i < p.parameters.size(); ++i) {
    const ParameterPlan& parameter = p.parameters[i];
    BufferRef input;
    if (settings_.offload)
      input = issuer_.allocate({Buffer::offload_input, unit, parameter.id, parameter.shard, StreamRole::compute});
    if (p.casts) {
      const BufferRef cast =
          issuer_.allocate({Buffer::offload_cast, unit, parameter.id, parameter.cast_shard, StreamRole::compute});
      issuer_.free(input);
      input = cast;
    }
    s.unsharded[i] =
        issuer_.allocate({Buffer::unsharded, unit, parameter.id, parameter.unsharded, StreamRole::compute});
    issuer_.free(input);
  }
  issuer_.issue(SectionRole::offload_copy, StreamRole::compute);
  issuer_.issue(SectionRole::cast, StreamRole::compute);
  issuer_.issue(SectionRole::split, StreamRole::compute);
  issuer_.end_section();
}

void FullyShard::wait_gather_streams(EventId event) {
  issuer_.wait_event(StreamRole::copy_in, event);
  issuer_.wait_event(StreamRole::all_gather, event);
}

void FullyShard::reshard(UnitId unit) {
  UnitState& s = state(unit);
  if (s.sharded != Sharded::unsharded) return;
  if (s.training == Training::forward) {
    if (plan(unit).reshard.kind == Reshard::Kind::never) return;
    if (plan(unit).reshard.kind == Reshard::Kind::group) {
      reshard_to_small_group(unit);
      return;
    }
  }
  free_unsharded(unit);
  s.sharded = Sharded::sharded;
}

void FullyShard::reshard_to_small_group(UnitId unit) {
  UnitState& s = state(unit);
  const UnitPlan& p = plan(unit);
  issuer_.begin_section(Section::reshard, unit, Pass::forward);
  for (std::size_t i = 0; i < p.parameters.size(); ++i) {
    s.clones[i] =
        issuer_.allocate({Buffer::clone, unit, p.parameters[i].id, p.parameters[i].clone, StreamRole::compute});
    issuer_.free(s.unsharded[i]);
    s.unsharded[i] = {};
  }
  issuer_.issue(SectionRole::clone, StreamRole::compute);
  issuer_.end_section();
  s.sharded = Sharded::sharded_post_forward;
  s.reshard_event = issuer_.record_event(StreamRole::compute);
}

void FullyShard::free_unsharded(UnitId unit) {
  for (BufferRef& buffer : state(unit).unsharded) {
    issuer_.free(buffer);
    buffer = {};
  }
}

void FullyShard::drop_gather_slot() {
  if (!gather_slot_) return;
  wait_gather_streams(gather_slot_->copied_out);
  issuer_.free(gather_slot_->gather.block);
  gather_slot_.reset();
}

}  // namespace foreshard

// The reduce side of FullyShard (fsdp2 semantics 3; FSDPParamGroup.post_backward, foreach_reduce and
// finalize_backward, PyTorch 2.11).
#include "core/fsdp/fully_shard.hpp"
#include "core/shard/copy_metadata.hpp"

namespace foreshard {

void FullyShard::post_backward(UnitId unit) {
  UnitState& s = state(unit);
  const UnitPlan& p = plan(unit);
  s.training = Training::post_backward;
  std::vector<bool> fresh;  // which parameters got a gradient in this microbatch
  for (const ParameterPlan& parameter : p.parameters) fresh.push_back(issuer_.has_gradient(parameter.id));
  accumulate(unit, fresh);
  if (!sync_) {
    keep_unreduced(unit, fresh);
    return;
  }
  reshard(unit);
  bool any = false;
  for (std::size_t i = 0; i < p.parameters.size(); ++i) any |= s.accumulated[i].valid() || fresh[i];
  if (any) reduce(unit, fresh);
}

void FullyShard::accumulate(UnitId unit, const std::vector<bool>& fresh) {
  UnitState& s = state(unit);
  const UnitPlan& p = plan(unit);
  bool adds = false;
  for (std::size_t i = 0; i < fresh.size(); ++i) adds |= fresh[i] && s.accumulated[i].valid();
  if (!adds) return;
  issuer_.begin_section(Section::accumulate, unit, Pass::backward);
  issuer_.issue(SectionRole::gradient_add, StreamRole::compute);
  for (std::size_t i = 0; i < fresh.size(); ++i)
    if (fresh[i] && s.accumulated[i].valid()) issuer_.free_gradient(p.parameters[i].id, p.parameters[i].gradient);
  issuer_.end_section();
}

void FullyShard::keep_unreduced(UnitId unit, const std::vector<bool>& fresh) {
  UnitState& s = state(unit);
  const UnitPlan& p = plan(unit);
  reshard(unit);
  if (!p.casts_gradients) return;  // .grad stays as it is, in the compute dtype
  bool casts = false;
  for (std::size_t i = 0; i < fresh.size(); ++i) casts |= fresh[i] && !s.accumulated[i].valid();
  if (!casts) return;
  issuer_.begin_section(Section::reshard, unit, Pass::backward);
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    if (!fresh[i] || s.accumulated[i].valid()) continue;
    s.accumulated[i] = issuer_.allocate(
        {Buffer::accumulated_gradient, unit, p.parameters[i].id, p.parameters[i].accumulated, StreamRole::compute});
    issuer_.free_gradient(p.parameters[i].id, p.parameters[i].gradient);
  }
  issuer_.issue(SectionRole::gradient_cast, StreamRole::compute);
  issuer_.end_section();
}

void FullyShard::reduce(UnitId unit, const std::vector<bool>& fresh) {
  UnitState& s = state(unit);
  const UnitPlan& p = plan(unit);
  std::vector<std::size_t> taking_part;  // accumulated gradients count as well (3.1 step 3)
  bool accumulated = false;
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    if (!fresh[i] && !s.accumulated[i].valid()) continue;
    taking_part.push_back(i);
    accumulated |= s.accumulated[i].valid();
  }
  const DType sent = accumulated ? p.reduce : p.sent;  // sums of microbatches are in the reduce dtype already
  std::vector<Bytes> chunks;
  Bytes output_bytes = 0;
  Bytes input_bytes = 0;
  for (std::size_t i : taking_part) {
    const ParameterPlan& parameter = p.parameters[i];
    chunks.push_back(sent == p.sent ? parameter.sent_chunk : parameter.reduce_chunk);
    output_bytes += parameter.reduce_chunk;
    input_bytes += chunks.back() * p.shard_ranks;
  }
  const auto free_gradient = [&](std::size_t i) {
    if (s.accumulated[i].valid()) {
      issuer_.free(s.accumulated[i]);
      s.accumulated[i] = {};
    } else {
      issuer_.free_gradient(p.parameters[i].id, p.parameters[i].gradient);
    }
  };
  issuer_.begin_section(Section::reduce, unit, Pass::backward);
  if (reduce_slot_) {  // the previous unit's input: one is kept alive across units (3.1 step 6)
    issuer_.wait_event(StreamRole::compute, reduce_slot_->event);
    issuer_.free(reduce_slot_->input);
    reduce_slot_.reset();
  }
  if (s.post_reduce_event) issuer_.wait_event(StreamRole::compute, *s.post_reduce_event);
  const MemoryKind kind = memory_of(settings_.reduce_scatter);
  const BufferRef input =
      issuer_.allocate({Buffer::reduce_input, unit, {}, input_bytes, StreamRole::compute, kind, sent});
  const bool rendezvous_input = kind == MemoryKind::symmetric && issuer_.took_new_segment();
  const BufferRef metadata =
      issuer_.allocate({Buffer::chunk_cat_metadata, unit, {}, chunk_cat_metadata_bytes(chunks), StreamRole::compute});
  issuer_.issue(SectionRole::metadata_copy, StreamRole::compute);
  issuer_.issue(SectionRole::chunk_cat, StreamRole::compute);
  issuer_.free(metadata);
  for (std::size_t k = taking_part.size() - 1; k-- > 0;) free_gradient(taking_part[k]);
  issuer_.wait_event(StreamRole::reduce_scatter, issuer_.record_event(StreamRole::compute));
  const BufferRef output =
      issuer_.allocate({Buffer::reduce_output, unit, {}, output_bytes, StreamRole::reduce_scatter, kind});
  const bool rendezvous_output = kind == MemoryKind::symmetric && issuer_.took_new_segment();
  if (rendezvous_input) keep_rendezvous_arrays(unit, StreamRole::reduce_scatter);
  if (rendezvous_output) keep_rendezvous_arrays(unit, StreamRole::reduce_scatter);
  reduce_collectives(unit, sent, input_bytes, output_bytes);
  reduce_slot_ = ReduceSlot{input, issuer_.record_event(StreamRole::reduce_scatter)};
  if (settings_.reduce_scatter_release.value_or(Release::automatic) == Release::record_stream)
    issuer_.record_stream(input, StreamRole::reduce_scatter);
  keep_sharded_gradients(unit, output, output_bytes);
  // The loop variable of foreach_reduce keeps the last gradient until it returns (3.2 step 4).
  free_gradient(taking_part.back());
  if (settings_.offload) {
    issuer_.issue(SectionRole::offload_copy, StreamRole::reduce_scatter);
    s.post_reduce_event = issuer_.record_event(StreamRole::reduce_scatter);
    issuer_.free(s.sharded_gradients);
    s.sharded_gradients = {};
  }
  issuer_.end_section();
}

void FullyShard::reduce_collectives(UnitId unit, DType sent, Bytes input_bytes, Bytes output_bytes) {
  UnitState& s = state(unit);
  const DType reduce = plan(unit).reduce;
  if (plan(unit).shard_ranks > 1) {
    CollectiveWork work{CollectiveKind::reduce_scatter, settings_.reduce_scatter, input_bytes, {}};
    work.dtype = sent;
    if (sent != reduce) work.output_dtype = reduce;
    issuer_.issue_collective(StreamRole::reduce_scatter, CommunicatorRole::shard, unit, work);
  }
  if (settings_.replicate <= 1) return;
  const EventId scattered = issuer_.record_event(StreamRole::reduce_scatter);
  issuer_.wait_event(StreamRole::all_reduce, scattered);
  issuer_.issue_collective(StreamRole::all_reduce, CommunicatorRole::replicate, unit,
                           {CollectiveKind::all_reduce, Transport::nccl, output_bytes, {}});
  s.all_reduce_event = issuer_.record_event(StreamRole::all_reduce);
}

void FullyShard::keep_sharded_gradients(UnitId unit, BufferRef output, Bytes output_bytes) {
  UnitState& s = state(unit);
  const UnitPlan& p = plan(unit);
  const bool hybrid = settings_.replicate > 1;
  const StreamRole post = hybrid ? StreamRole::all_reduce : StreamRole::reduce_scatter;
  BufferRef gradients = output;
  if (p.casts_back) {
    const Bytes bytes = output_bytes / itemsize(p.reduce) * p.cast_output_itemsize;
    gradients = issuer_.allocate({Buffer::cast_output, unit, {}, bytes, post});
    issuer_.issue(SectionRole::cast_back, post);
    if (hybrid)
      s.all_reduce_input = output;  // held until finalize_backward (3.5)
    else
      issuer_.free(output);
  }
  if (s.sharded_gradients.valid())
    issuer_.free(gradients);  // added in place to the .grad of an earlier backward, before the event (foreach_reduce)
  else
    s.sharded_gradients = gradients;
  s.post_reduce_event = issuer_.record_event(post);
}

void FullyShard::finalize(UnitId unit) {
  UnitState& s = state(unit);
  if (s.post_reduce_event) {
    issuer_.wait_event(StreamRole::compute, *s.post_reduce_event);
    if (settings_.offload) issuer_.synchronize_event(*s.post_reduce_event);
    s.post_reduce_event.reset();
  }
  if (s.all_reduce_event) {
    issuer_.wait_event(StreamRole::compute, *s.all_reduce_event);
    s.all_reduce_event.reset();
  }
  issuer_.free(s.all_reduce_input);
  s.all_reduce_input = {};
  if (s.pending) {  // a gather nobody used (4.3)
    if (!s.pending->trivial) issuer_.wait_event(StreamRole::compute, s.pending->work.value_or(s.pending->event));
    issuer_.free(s.pending->block);
    s.pending.reset();
  }
  s.post_forward_indices.clear();
}

}  // namespace foreshard

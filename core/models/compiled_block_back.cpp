#include "core/kernel/kernel_cost.hpp"
#include "core/models/compiled_block.hpp"
#include "core/models/inductor_reductions.hpp"
#include "core/models/ops.hpp"

namespace foreshard::model {

/// Gradients of w2, w3 and w1 (out: 9, 8, 7), and of the second norm's result by both.
void CompiledBlock::feed_forward_back(Buffers& buffers, Kept& kept, Tensors& out, Tensors& normed) const {
  out[9] = buffers.make({dim_, ffn_}, dtype_);
  product(buffers, out[9], rows_, GemmUse::wgrad);
  buffers.drop(kept.product);
  Tensor inner = buffers.make({rows_, ffn_}, dtype_);
  product(buffers, inner, dim_, GemmUse::dgrad);
  Tensor by_up = buffers.make({rows_, ffn_}, dtype_);
  fused(buffers, "triton_poi_fused_mul_silu_silu_backward", {inner, kept.gate, kept.up}, {by_up, kept.up},
        MemoryAccess::contiguous, Tuned::in_place);
  buffers.done(inner);
  buffers.drop(kept.gate);
  out[8] = buffers.make({ffn_, dim_}, dtype_);
  product(buffers, out[8], rows_, GemmUse::wgrad);
  normed[0] = buffers.make({rows_, dim_}, dtype_);
  product(buffers, normed[0], ffn_, GemmUse::dgrad);
  buffers.done(by_up);
  out[7] = buffers.make({ffn_, dim_}, dtype_);
  product(buffers, out[7], rows_, GemmUse::wgrad);
  buffers.drop(kept.normed2);
  normed[1] = buffers.make({rows_, dim_}, dtype_);
  product(buffers, normed[1], ffn_, GemmUse::dgrad);
  buffers.drop(kept.up);  // written over by the gate's gradient
}

/// dq, dk and dv by heads; `merged` is the gradient of attention's result.
Tensors CompiledBlock::attention_back(Buffers& buffers, Kept& kept, Tensor& merged) const {
  Tensors heads(3);
  if (buffers.planning()) {
    heads = {Tape::elsewhere({}, by_head(query_), dtype_), Tape::elsewhere({}, by_head(key_), dtype_),
             Tape::elsewhere({}, by_head(key_), dtype_)};
  } else {
    heads = attention_backward(tape_, {kept.k, kept.q, as_heads(kept.v, key_), kept.logsumexp, kept.attended},
                               as_heads(merged, query_));
  }
  buffers.done(merged);
  for (Tensor* input : {&kept.k, &kept.q, &kept.seed, &kept.offset, &kept.attended, &kept.logsumexp, &kept.v})
    buffers.drop(*input);
  return heads;
}

Tensor CompiledBlock::unrotate(Buffers& buffers, const Tensor& by_heads, const Kept& kept) const {
  Tensor wide = buffers.make(by_heads->shape, DType::float32);
  fused(buffers, "triton_poi_fused__to_copy_add_cat_mul_neg_slice", {by_heads, kept.cos, kept.sin}, {wide});
  return wide;
}

Tensor CompiledBlock::flattened(Buffers& buffers, Tensor& wide, std::uint64_t width) const {
  Tensor flat = buffers.make({rows_, width}, dtype_);
  fused(buffers, "triton_poi_fused__to_copy_clone_transpose", {wide}, {flat}, MemoryAccess::strided);
  buffers.done(wide);
  return flat;
}

/// dq and dk by heads (heads: 0, 1) become the projections' gradients; the first norm's result's by v, k and q.
void CompiledBlock::projections_back(Buffers& buffers, Kept& kept, Tensors& heads, Tensors& parts) const {
  const auto tables_done = [&] {
    buffers.drop(kept.cos);
    buffers.drop(kept.sin);
  };
  const auto by = [&](std::uint64_t width) {
    Tensor out = buffers.make({rows_, dim_}, dtype_);
    product(buffers, out, width, GemmUse::dgrad);
    return out;
  };
  const bool joined = query_ == key_;
  parts[0] = by(key_);
  Tensor k = unrotate(buffers, heads[1], kept);
  Tensor q;
  if (joined) {
    q = unrotate(buffers, heads[0], kept);
    buffers.done(heads[0]);
    tables_done();
  }
  buffers.done(heads[1]);
  heads[1] = flattened(buffers, k, key_);
  parts[1] = by(key_);
  if (!joined) {
    q = unrotate(buffers, heads[0], kept);
    buffers.done(heads[0]);
    tables_done();
  }
  heads[0] = flattened(buffers, q, query_);
  parts[2] = by(query_);
}

/// aten::sum over the rows of one norm's partial sums.
Tensor CompiledBlock::summed_half(Buffers& buffers, const Tensor& partial) const {
  Tensor out = buffers.make({dim_}, DType::float32);
  const KernelWork cost =
      bytes_cost(partial->bytes() / 2 + out->bytes(), MemoryAccess::column, partial->numel() / 2, DType::float32);
  if (!buffers.planning()) tape_.launch(Launch::reduction, "aten::sum", cost);
  return out;
}

/// The norms' kernels. `parts`: gradients of the first norm's result by v, k and q, of the second's by w3 and w1; then
/// the residual stream's.
void CompiledBlock::norms_back(Buffers& buffers, Kept& kept, Tensors& parts, Norms& norms, Tensor& dx) const {
  const bool mixed = mixes_orders(rows_, dim_);
  const std::uint32_t sms = tape_.options().sm_count;
  Tensors reads{parts[0], parts[1], parts[2], parts[5], kept.x, kept.rstd1};
  if (mixed) {
    dx = buffers.make({batch_, length_, dim_}, dtype_);
    norms.partial = buffers.make({2 * mixed_splits(rows_, sms), dim_}, DType::float32);
    fused(buffers, "triton_per_fused__fused_rms_norm_backward", reads, {dx, norms.partial}, MemoryAccess::row,
          Tuned::no);
  } else {
    norms.first = buffers.make({outer_splits(rows_, dim_, sms), dim_}, DType::float32);
    norms.second = buffers.make({outer_splits(rows_, dim_, sms), dim_}, DType::float32);
    fused(buffers, "triton_red_fused__fused_rms_norm_backward", {parts[3], parts[4], kept.x, kept.projected},
          {norms.first}, MemoryAccess::column);
    fused(buffers, "triton_red_fused__fused_rms_norm_backward", reads, {norms.second}, MemoryAccess::column);
  }
  reads.clear();
  if (!mixed) {
    for (const std::size_t i : {3, 4}) buffers.done(parts[i]);
    buffers.drop(kept.projected);
    buffers.drop(kept.rstd2);
    return;
  }
  norms.first = summed_half(buffers, norms.partial);
  norms.second = summed_half(buffers, norms.partial);
  buffers.done(norms.partial);
  for (std::size_t i = 0; i < 5; ++i) buffers.done(parts[i]);
  for (Tensor* input : {&kept.projected, &kept.x, &kept.rstd1, &kept.rstd2}) buffers.drop(*input);
}

/// A norm weight's gradient from its partial sums.
void CompiledBlock::cast_sum(Buffers& buffers, Tensor& sum, Tensor& out) const {
  out = buffers.make({dim_}, dtype_);
  fused(buffers, "triton_poi_fused__fused_rms_norm_backward", {sum}, {out});
  buffers.done(sum);
}

/// Gradients of wo, wv, wk and wq (out: 5, 4, 3, 2).
void CompiledBlock::weights_back(Buffers& buffers, Kept& kept, Tensors& heads, Tensor& residual, Tensors& out) const {
  out[5] = buffers.make({dim_, query_}, dtype_);
  product(buffers, out[5], rows_, GemmUse::wgrad);
  if (mixes_orders(rows_, dim_)) buffers.done(residual);
  buffers.drop(kept.merged);
  out[4] = buffers.make({key_, dim_}, dtype_);
  product(buffers, out[4], rows_, GemmUse::wgrad);
  buffers.done(heads[2]);
  out[3] = buffers.make({key_, dim_}, dtype_);
  product(buffers, out[3], rows_, GemmUse::wgrad);
  buffers.done(heads[1]);
  out[2] = buffers.make({query_, dim_}, dtype_);
  product(buffers, out[2], rows_, GemmUse::wgrad);
  buffers.done(heads[0]);
  buffers.drop(kept.normed1);
}

Tensors CompiledBlock::backward(const Tensor& gradient, Kept& kept) {
  Tensors out(10);
  InductorBuffers buffers(tape_);
  buffers.run([&] {
    Tensors parts(6);
    Tensors normed(2);
    Norms norms;
    feed_forward_back(buffers, kept, out, normed);
    parts[3] = normed[0];
    parts[4] = normed[1];
    normed.clear();
    parts[5] = buffers.make({batch_, length_, dim_}, dtype_);
    fused(buffers, "triton_red_fused__fused_rms_norm_backward_add",
          {gradient, parts[3], parts[4], kept.x, kept.projected, kept.rstd2}, {parts[5]}, MemoryAccess::row);
    Tensor merged = buffers.make({rows_, query_}, dtype_);
    product(buffers, merged, dim_, GemmUse::dgrad);
    Tensors heads = attention_back(buffers, kept, merged);
    projections_back(buffers, kept, heads, parts);
    norms_back(buffers, kept, parts, norms, out[0]);
    cast_sum(buffers, norms.first, out[6]);
    weights_back(buffers, kept, heads, parts[5], out);
    if (!mixes_orders(rows_, dim_)) {  // over the residual stream's gradient
      fused(buffers, "triton_red_fused__fused_rms_norm_backward_add",
            {parts[0], parts[1], parts[2], parts[5], kept.x, kept.rstd1}, {parts[5]}, MemoryAccess::row);
      out[0] = parts[5];
      for (std::size_t i = 0; i < 3; ++i) buffers.done(parts[i]);
      buffers.drop(kept.x);
      buffers.drop(kept.rstd1);
    }
    cast_sum(buffers, norms.second, out[1]);
  });
  return out;
}

}  // namespace foreshard::model

#include "core/models/compiled_block.hpp"

#include <algorithm>

#include "core/kernel/kernel_cost.hpp"
#include "core/models/inductor_first_run.hpp"
#include "core/models/ops.hpp"

namespace foreshard::model {

void CompiledBlock::fused(Buffers& buffers, std::string_view label, const Tensors& reads, const Tensors& writes,
                          MemoryAccess access, Tuned tuned) const {
  if (buffers.planning()) return;
  Bytes bytes = 0;
  std::uint64_t elements = 0;
  for (const Tensor& x : reads) bytes += x->bytes();
  for (const Tensor& x : writes) {
    bytes += x->bytes();
    elements = std::max(elements, x->numel());
  }
  if (tuned != Tuned::no)
    tune_first(tape_, label, writes.front()->bytes(), tuned == Tuned::in_place ? writes.back()->bytes() : 0);
  tape_.launch(Launch::elementwise, label, bytes_cost(bytes, access, elements, dtype_));
}

void CompiledBlock::product(const Buffers& buffers, const Tensor& out, std::uint64_t k, GemmUse use) const {
  const std::uint64_t columns = out->dim(-1);
  if (!buffers.planning()) tape_.launch_gemm("aten::mm", out->numel() / columns, columns, k, dtype_, 1, use);
}

Tensor CompiledBlock::as_heads(const Tensor& flat, std::uint64_t width) const {
  return tape_.alias(flat, by_head(width), {length_ * width, b_.head_dim, width, 1}, false);
}

/// Rotary embedding, attention and the transposed copy; frees or takes over the projections.
void CompiledBlock::attend(Buffers& buffers, Kept& kept, Tensor& q) const {
  Tensor k = buffers.make({rows_, key_}, dtype_);
  product(buffers, k, dim_);
  kept.v = buffers.make({rows_, key_}, dtype_);
  product(buffers, kept.v, dim_);
  const bool joined = query_ == key_;  // kernels of one shape over the same tables are fused
  kept.q = buffers.make(by_head(query_), dtype_);
  fused(buffers, "triton_poi_fused__to_copy_add_cat_mul_split_sub", {q, kept.cos, kept.sin}, {kept.q},
        MemoryAccess::strided);
  if (!joined) buffers.done(q);
  kept.k = buffers.make(by_head(key_), dtype_);
  fused(buffers, "triton_poi_fused__to_copy_add_cat_mul_split_sub", {k, kept.cos, kept.sin}, {kept.k},
        MemoryAccess::strided);
  if (joined) buffers.done(q);
  buffers.done(k);
  if (!buffers.planning()) {
    const Tensors made = attention_forward(tape_, kept.q, kept.k, as_heads(kept.v, key_));
    kept.attended = made[0];
    kept.logsumexp = made[1];
    kept.seed = made[2];
    kept.offset = made[3];
  }
  kept.merged = buffers.make({rows_, query_}, dtype_);
  fused(buffers, "triton_poi_fused_clone_transpose", {kept.attended}, {kept.merged}, MemoryAccess::strided);
}

/// From the second norm on; the block's result.
Tensor CompiledBlock::feed_forward(Buffers& buffers, const Tensor& x, Kept& kept) const {
  kept.rstd2 = buffers.make({rows_}, DType::float32);
  kept.normed2 = buffers.make({rows_, dim_}, dtype_);
  fused(buffers, "triton_red_fused__fused_rms_norm_add", {x, kept.projected, b_.ffn_norm}, {kept.rstd2, kept.normed2},
        MemoryAccess::row, Tuned::no);
  kept.gate = buffers.make({rows_, ffn_}, dtype_);
  product(buffers, kept.gate, dim_);
  kept.up = buffers.make({rows_, ffn_}, dtype_);
  product(buffers, kept.up, dim_);
  kept.product = buffers.make({rows_, ffn_}, dtype_);
  fused(buffers, "triton_poi_fused_mul_silu", {kept.gate, kept.up}, {kept.product});
  Tensor out = buffers.make({batch_, length_, dim_}, dtype_);
  product(buffers, out, ffn_);
  fused(buffers, "triton_poi_fused_add", {x, kept.projected, out}, {out}, MemoryAccess::contiguous, Tuned::in_place);
  return out;
}

Tensor CompiledBlock::forward(const Tensor& x, Kept& kept) {
  Tensor out;
  InductorBuffers buffers(tape_);
  buffers.run([&] {
    kept.rstd1 = buffers.make({rows_}, DType::float32);
    kept.normed1 = buffers.make({rows_, dim_}, dtype_);
    fused(buffers, "triton_red_fused__fused_rms_norm", {x, b_.attn_norm}, {kept.rstd1, kept.normed1}, MemoryAccess::row,
          Tuned::no);
    Tensor q = buffers.make({rows_, query_}, dtype_);
    product(buffers, q, dim_);
    attend(buffers, kept, q);
    kept.projected = buffers.make({rows_, dim_}, dtype_);
    product(buffers, kept.projected, query_);
    out = feed_forward(buffers, x, kept);
  });
  return out;
}

}  // namespace foreshard::model

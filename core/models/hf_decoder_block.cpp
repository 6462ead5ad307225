#include "core/models/hf_decoder_block.hpp"

namespace foreshard::model {
namespace {

Tensor apply(Tape& tape, const HfLinear& layer, const Tensor& x) {
  return linear_layer(tape, x, layer.weight, layer.bias);
}

/// norm(proj(x).view(batch, length, -1, head_dim)).transpose(1, 2); `norm` null: none.
Tensor heads_of(Tape& tape, const HfLinear& projection, const Tensor& norm, const Tensor& x, std::uint64_t head_dim) {
  Tensor projected = apply(tape, projection, x);
  Tensor heads = view(tape, projected, {x->dim(0), x->dim(1), projected->dim(-1) / head_dim, head_dim});
  projected.reset();
  if (norm) heads = hf_rms_norm(tape, heads, norm);
  return transpose(tape, heads, 1, 2);
}

}  // namespace

Tensor hf_attention(Tape& tape, const ModelConfig& model, const HfAttention& weights, const Tensor& x,
                    const RotaryTables& tables) {
  tape.spend(HostCall::module);
  Tensor q = heads_of(tape, weights.q, weights.q_norm, x, model.head_dim);
  Tensor k = heads_of(tape, weights.k, weights.k_norm, x, model.head_dim);
  Tensor v = heads_of(tape, weights.v, nullptr, x, model.head_dim);
  RotatedHeads rotated = hf_apply_rotary(tape, q, k, tables);
  q = std::move(rotated.q);
  k = std::move(rotated.k);
  Tensor out = attention(tape, q, k, v, {.causal = true});
  out = contiguous(tape, transpose(tape, out, 1, 2));
  out = reshape(tape, out, {x->dim(0), x->dim(1), model.heads * model.head_dim});
  out = apply(tape, weights.o, out);
  q.reset();
  k.reset();
  v.reset();
  return out;
}

Tensor hf_feed_forward(Tape& tape, const HfFeedForward& weights, const Tensor& x) {
  tape.spend(HostCall::module);
  Tensor gate = apply(tape, weights.gate, x);
  tape.spend(HostCall::module);
  Tensor active = activation(tape, gate, "aten::silu");
  gate.reset();
  Tensor up = apply(tape, weights.up, x);
  Tensor product = mul(tape, active, up);
  active.reset();
  up.reset();
  return apply(tape, weights.down, product);
}

}  // namespace foreshard::model

#include "core/models/hf_latent_attention.hpp"

#include <array>

namespace foreshard::model {
namespace {

Tensor apply(Tape& tape, const HfLinear& layer, const Tensor& x) {
  return linear_layer(tape, x, layer.weight, layer.bias);
}

/// proj(x).view(batch, length, heads, width).transpose(1, 2)
Tensor heads_of(Tape& tape, const Tensor& projected, std::uint64_t heads, std::uint64_t width) {
  return transpose(tape, view(tape, projected, {projected->dim(0), projected->dim(1), heads, width}), 1, 2);
}

/// q_proj, or q_b_proj(q_a_layernorm(q_a_proj(x)))
Tensor queries(Tape& tape, const HfLatentAttention& weights, const Tensor& x) {
  if (weights.q.weight) return apply(tape, weights.q, x);
  const Tensor narrow = apply(tape, weights.q_a, x);
  return apply(tape, weights.q_b, hf_rms_norm(tape, narrow, weights.q_a_norm));
}

/// x.view(b, h, s, d // 2, 2).transpose(4, 3).reshape(b, h, s, d)
Tensor pairs_apart(Tape& tape, const Tensor& x) {
  const Tensor pairs = view(tape, x, {x->dim(0), x->dim(1), x->dim(2), x->dim(3) / 2, 2});
  return reshape(tape, transpose(tape, pairs, 4, 3), x->shape);
}

}  // namespace

Tensor hf_latent_attention(Tape& tape, const ModelConfig& model, const HfLatentAttention& weights, const Tensor& x,
                           const RotaryTables& tables) {
  tape.spend(HostCall::module);
  const LatentAttention& latent = model.latent;
  const std::uint64_t batch = x->dim(0);
  const std::uint64_t length = x->dim(1);
  const Tensor q_states = heads_of(tape, queries(tape, weights, x), model.heads, latent.query());
  const Tensors q = split(tape, q_states, -1, std::array{latent.nope, latent.rope});
  const Tensor compressed = apply(tape, weights.kv_a, x);
  const Tensors narrow = split(tape, compressed, -1, std::array{latent.kv_rank, latent.rope});
  const Tensor wide = apply(tape, weights.kv_b, hf_rms_norm(tape, narrow[0], weights.kv_a_norm));
  const Tensors kv = split(tape, heads_of(tape, wide, model.heads, latent.nope + latent.value), -1,
                           std::array{latent.nope, latent.value});
  Tensor q_turned = q[1];
  Tensor k_turned = view(tape, narrow[1], {batch, 1, length, latent.rope});
  if (latent.interleaves) {
    q_turned = pairs_apart(tape, q_turned);
    k_turned = pairs_apart(tape, k_turned);
  }
  RotatedHeads rotated = hf_apply_rotary(tape, q_turned, k_turned, tables);
  q_turned = std::move(rotated.q);
  k_turned = expand(tape, rotated.k, {batch, model.heads, length, latent.rope});
  rotated.k.reset();
  const Tensor query = cat(tape, {q[0], q_turned}, -1);
  const Tensor key = cat(tape, {kv[0], k_turned}, -1);
  Tensor out = attention(tape, query, key, kv[1], {.causal = true});
  out = contiguous(tape, transpose(tape, out, 1, 2));
  out = reshape(tape, out, {batch, length, model.heads * latent.value});
  return apply(tape, weights.o, out);
}

}  // namespace foreshard::model

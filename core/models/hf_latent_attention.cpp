#include "core/models/hf_latent_attention.hpp"

#include <array>

namespace foreshard::model {
namespace {

Tensor applied(Tape& tape, const HfLinear& layer, const Tensor& x) {
  return linear_layer(tape, x, layer.weight, layer.bias);
}

/// proj(x).view(batch, length, heads, width).transpose(1, 2)
Tensor heads_of(Tape& tape, const Tensor& projected, std::uint64_t heads, std::uint64_t width) {
  return transpose(tape, view(tape, projected, {projected->dim(0), projected->dim(1), heads, width}), 1, 2);
}

/// q_proj, or q_b_proj(q_a_layernorm(q_a_proj(x)))
Tensor queries(Tape& tape, const HfLatentAttention& weights, const Tensor& x) {
  if (weights.q.weight) return applied(tape, weights.q, x);
  Tensor narrow = applied(tape, weights.q_a, x);
  narrow = hf_rms_norm(tape, narrow, weights.q_a_norm);
  return applied(tape, weights.q_b, narrow);
}

/// apply_rotary_pos_emb_interleave: pairs of neighbours of q and of k, turned by the first half of the tables, come out
/// as two halves.
class TurnedPairs {
 public:
  TurnedPairs(Tape& tape, const RotaryTables& tables)
      : tape_(tape), cos_(half_of(unsqueeze(tape, tables.cos, 1))), sin_(half_of(unsqueeze(tape, tables.sin, 1))) {}

  /// q, then k: both are sliced before either is turned.
  [[nodiscard]] RotatedHeads turn(const Tensor& q, const Tensor& k) const {
    const Pairs of_q = pairs(q);
    const Pairs of_k = pairs(k);
    Tensor turned_q = turn(of_q);
    return {turned_q, turn(of_k)};
  }

 private:
  struct Pairs {
    Tensor even;
    Tensor odd;
  };

  [[nodiscard]] Tensor half_of(const Tensor& table) const { return narrow(tape_, table, -1, 0, table->dim(-1) / 2); }
  [[nodiscard]] Pairs pairs(const Tensor& x) const {
    Tensor even = every_second(tape_, x, -1, 0);
    return {even, every_second(tape_, x, -1, 1)};
  }
  /// cat([even * cos - odd * sin, odd * cos + even * sin])
  [[nodiscard]] Tensor turn(const Pairs& x) const {
    Tensor a = mul(tape_, x.even, cos_);
    Tensor b = mul(tape_, x.odd, sin_);
    Tensor first = sub(tape_, a, b);
    a.reset();
    b.reset();
    a = mul(tape_, x.odd, cos_);
    b = mul(tape_, x.even, sin_);
    Tensor second = add(tape_, a, b);
    a.reset();
    b.reset();
    Tensor out = cat(tape_, {first, second}, -1);
    second.reset();
    first.reset();
    return out;
  }

  Tape& tape_;
  Tensor cos_;
  Tensor sin_;
};

/// DeepseekV3Attention.expand_kv: the keys of all heads are written into one tensor in two copies.
struct KeysAndValues {
  Tensor keys;
  Tensor values;
};
KeysAndValues expand_kv(Tape& tape, const ModelConfig& model, const HfLinear& layer, const Tensor& narrow,
                        const Tensor& turned) {
  const LatentAttention& latent = model.latent;
  const Tensor wide = heads_of(tape, applied(tape, layer, narrow), model.heads, latent.nope + latent.value);
  const Tensors kv = split(tape, wide, -1, std::array{latent.nope, latent.value});
  const Tensor rope = expand(tape, turned, {turned->dim(0), model.heads, turned->dim(2), latent.rope});
  Tensor keys = tape.empty({turned->dim(0), model.heads, turned->dim(2), latent.query()}, kv[0]->dtype);
  keys = copy_into(tape, keys, 0, kv[0]);
  keys = copy_into(tape, keys, latent.nope, rope);
  return {keys, kv[1]};
}

}  // namespace

Tensor hf_latent_attention(Tape& tape, const ModelConfig& model, const HfLatentAttention& weights, const Tensor& x,
                           const RotaryTables& tables) {
  tape.spend(HostCall::module);
  const LatentAttention& latent = model.latent;
  const std::uint64_t batch = x->dim(0);
  const std::uint64_t length = x->dim(1);
  Tensor q_states = heads_of(tape, queries(tape, weights, x), model.heads, latent.query());
  Tensors q = split(tape, q_states, -1, std::array{latent.nope, latent.rope});
  Tensor compressed = applied(tape, weights.kv_a, x);
  Tensors narrow = split(tape, compressed, -1, std::array{latent.kv_rank, latent.rope});
  narrow[0] = hf_rms_norm(tape, narrow[0], weights.kv_a_norm);
  narrow[1] = view(tape, narrow[1], {batch, 1, length, latent.rope});
  RotatedHeads turned = latent.interleaves ? TurnedPairs(tape, tables).turn(q[1], narrow[1])
                                           : hf_apply_rotary(tape, q[1], narrow[1], tables);
  Tensor query = cat(tape, {q[0], turned.q}, -1);
  KeysAndValues kv = expand_kv(tape, model, weights.kv_b, narrow[0], turned.k);
  Tensor out = attention(tape, query, kv.keys, kv.values, {.causal = true});
  out = contiguous(tape, transpose(tape, out, 1, 2));
  out = reshape(tape, out, {batch, length, model.heads * latent.value});
  out = applied(tape, weights.o, out);
  q.clear();
  narrow[1].reset();
  for (Tensor* local : {&q_states, &turned.q, &compressed, &narrow[0], &turned.k, &query, &kv.keys, &kv.values})
    local->reset();
  return out;
}

}  // namespace foreshard::model

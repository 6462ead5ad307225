// The plain Llama's block as foreshard's own kernels run it (`--kernels fused`, docs/models.md).
//
// Who: llama.cpp. Not for other rooms.
#pragma once

#include "core/models/fused_ops.hpp"
#include "core/settings/settings.hpp"

namespace foreshard::model {

struct LlamaBlock {
  Tensor attn_norm, wq, wk, wv, wo, ffn_norm, w1, w3, w2;  ///< unsharded parameters
  std::uint64_t head_dim = 0;
  Tensor cos, sin;  ///< length × head_dim / 2, float32
  Float8 float8 = Float8::none;
};

/// `inputs`: the residual stream, batch × length × dim, or it and a change that is still to be added; dropped on the
/// way. Returns the same: {stream} where `closed`, else {stream, change}, whose sum the next norm makes.
[[nodiscard]] Tensors fused_llama_block(Tape& tape, const LlamaBlock& block, Tensors& inputs, bool closed);

}  // namespace foreshard::model

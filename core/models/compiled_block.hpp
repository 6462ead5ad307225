// One compiled block of the plain Llama: its forward's code and its backward's, as Inductor generates them.
//
// Who: llama_compiled.cpp. Not for other rooms.
#pragma once

#include <string_view>

#include "core/kernel/kernel_cost.hpp"
#include "core/models/inductor_buffers.hpp"
#include "core/models/llama_fused.hpp"

namespace foreshard::model {

/// What the forward keeps; names as in Block.forward.
struct CompiledKept {
  Tensor x, rstd1, normed1, v, q, k, seed, offset, attended, logsumexp, merged, projected, rstd2, normed2, gate, up,
      product, cos, sin;
};

class CompiledBlock {
 public:
  using Kept = CompiledKept;

  CompiledBlock(Tape& tape, const LlamaBlock& block, const Tensor& x)
      : tape_(tape),
        b_(block),
        dtype_(x->dtype),
        batch_(x->dim(0)),
        length_(x->dim(1)),
        dim_(x->dim(2)),
        rows_(batch_ * length_),
        query_(block.wq->dim(0)),
        key_(block.wk->dim(0)),
        ffn_(block.w1->dim(0)) {}

  /// The result; fills `kept` but for the inputs.
  Tensor forward(const Tensor& x, Kept& kept);
  /// Gradients of x, attn_norm, wq, wk, wv, wo, ffn_norm, w1, w3, w2; empties `kept`.
  Tensors backward(const Tensor& gradient, Kept& kept);

 private:
  struct Norms {  // gradients of the norms' weights on the way
    Tensor partial, first, second;
  };
  using Buffers = InductorBuffers;

  /// One Triton kernel. Those of several configurations are tuned when they first run.
  enum class Tuned : std::uint8_t { no, yes, in_place };
  void fused(Buffers& buffers, std::string_view label, const Tensors& reads, const Tensors& writes,
             MemoryAccess access = MemoryAccess::contiguous, Tuned tuned = Tuned::yes) const;
  /// out = a × b, `k` being what they share.
  void product(const Buffers& buffers, const Tensor& out, std::uint64_t k, GemmUse use = GemmUse::forward) const;
  [[nodiscard]] Shape by_head(std::uint64_t width) const { return {batch_, width / b_.head_dim, length_, b_.head_dim}; }
  [[nodiscard]] Tensor as_heads(const Tensor& flat, std::uint64_t width) const;
  void attend(Buffers& buffers, Kept& kept, Tensor& q) const;
  Tensor feed_forward(Buffers& buffers, const Tensor& x, Kept& kept) const;
  void feed_forward_back(Buffers& buffers, Kept& kept, Tensors& out, Tensors& normed) const;
  Tensors attention_back(Buffers& buffers, Kept& kept, Tensor& merged) const;
  [[nodiscard]] Tensor unrotate(Buffers& buffers, const Tensor& by_heads, const Kept& kept) const;
  [[nodiscard]] Tensor flattened(Buffers& buffers, Tensor& wide, std::uint64_t width) const;
  void projections_back(Buffers& buffers, Kept& kept, Tensors& heads, Tensors& parts) const;
  [[nodiscard]] Tensor summed_half(Buffers& buffers, const Tensor& partial) const;
  void norms_back(Buffers& buffers, Kept& kept, Tensors& parts, Norms& norms, Tensor& dx) const;
  void weights_back(Buffers& buffers, Kept& kept, Tensors& heads, Tensor& residual, Tensors& out) const;
  void cast_sum(Buffers& buffers, Tensor& sum, Tensor& out) const;

  Tape& tape_;
  const LlamaBlock& b_;
  DType dtype_;
  std::uint64_t batch_, length_, dim_, rows_, query_, key_, ffn_;
};

}  // namespace foreshard::model

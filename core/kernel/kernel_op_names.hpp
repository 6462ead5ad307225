// The names of KernelOp in files: those of its enumerators, but for `fused`, which files call "included".
#pragma once

#include "core/base/enum_names.hpp"
#include "core/kernel/kernel.hpp"

namespace foreshard {

template <>
struct EnumNames<KernelOp> {
  static constexpr std::array<std::string_view, 65> kNames{"included",
                                                           "fill",
                                                           "copy",
                                                           "add",
                                                           "sub",
                                                           "mul",
                                                           "neg",
                                                           "mul_scalar",
                                                           "add_scalar",
                                                           "silu",
                                                           "silu_backward",
                                                           "gelu",
                                                           "gelu_backward",
                                                           "dropout",
                                                           "dropout_backward",
                                                           "sum_to",
                                                           "layer_norm",
                                                           "layer_norm_backward",
                                                           "layer_norm_backward_weights",
                                                           "rms_norm",
                                                           "rms_norm_backward",
                                                           "rms_norm_backward_weight",
                                                           "gemm",
                                                           "attention",
                                                           "attention_backward",
                                                           "embedding",
                                                           "embedding_backward",
                                                           "log_softmax",
                                                           "log_softmax_backward",
                                                           "nll_loss",
                                                           "nll_loss_backward",
                                                           "cross_entropy",
                                                           "softmax",
                                                           "softmax_backward",
                                                           "causal_mask",
                                                           "cat",
                                                           "rope",
                                                           "rope_backward",
                                                           "swiglu",
                                                           "swiglu_backward",
                                                           "add_rms_norm",
                                                           "add_rms_norm_backward",
                                                           "copy_in",
                                                           "copy_out",
                                                           "chunk_cat",
                                                           "adam",
                                                           "sgd",
                                                           "foreach_lerp",
                                                           "foreach_mul",
                                                           "foreach_addcmul",
                                                           "foreach_sqrt",
                                                           "foreach_div",
                                                           "foreach_add",
                                                           "foreach_addcdiv",
                                                           "random_normal",
                                                           "random_tokens",
                                                           "rotary_cos",
                                                           "rotary_sin",
                                                           "arange",
                                                           "amax",
                                                           "cast_float8",
                                                           "scaled_mm",
                                                           "transpose_float8",
                                                           "shard_amaxes",
                                                           "copy_in_float8"};
};
static_assert(names_end_with(KernelOp::copy_in_float8));

}  // namespace foreshard

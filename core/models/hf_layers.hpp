// What the causal language models of Hugging Face transformers do alike, as their eager code runs it: positions, the
// look for packed sequences (one host synchronisation a step), rotary tables, RMSNorm, the loss; and which attentions
// can be predicted.
//
// Source: transformers 5, modeling_llama.py, modeling_qwen2.py, modeling_qwen3.py, modeling_mixtral.py,
// modeling_gpt2.py, masking_utils.py, loss/loss_utils.py; which of its versions, and that the requests are equal, is
// what the reference runs show. Who: hf_decoder_block.cpp, hf_decoder_family.cpp, hf_gpt2.cpp. Not for other rooms.
#pragma once

#include <cstdint>
#include <functional>

#include "core/base/error.hpp"
#include "core/models/model_config.hpp"
#include "core/models/ops.hpp"
#include "core/models/wrapped_model.hpp"

namespace foreshard::model {

/// position_ids of a model without a cache: torch.arange(seq) + 0, int64.
[[nodiscard]] Tensor hf_positions(Tape& tape, std::uint64_t seq);

/// find_packed_sequence_indices (masking_utils.py): with no attention mask given the model looks whether its positions
/// jump, and the host waits for the answer. Leaves nothing behind: attention runs with is_causal.
void hf_packed_sequence_check(Tape& tape, const Tensor& positions, std::uint64_t batch);

struct RotaryTables {
  Tensor cos;
  Tensor sin;
};
struct RotarySizes {
  std::uint64_t head_dim = 0;
  DType dtype = DType::bfloat16;  ///< of the hidden states
  bool on_host = false;           ///< CPU offload leaves inv_freq there: copied to the GPU in every step
};
/// …RotaryEmbedding.forward: computed once a step in float32 for one sequence, then cast.
[[nodiscard]] RotaryTables hf_rotary_tables(Tape& tape, const Tensor& positions, const RotarySizes& sizes);

struct RotatedHeads {
  Tensor q;
  Tensor k;
};
/// apply_rotary_pos_emb on batch × heads × length × head_dim.
[[nodiscard]] RotatedHeads hf_apply_rotary(Tape& tape, const Tensor& q, const Tensor& k, const RotaryTables& tables);

/// …RMSNorm.forward: in float32, cast back before the weight.
[[nodiscard]] Tensor hf_rms_norm(Tape& tape, const Tensor& x, const Tensor& weight);

/// …ForCausalLM.forward with the tokens as labels: `run_model` gives the last hidden states, then the head, and
/// ForCausalLMLoss (logits in float32, labels padded and shifted by one). `head`: the weight's parameter.
[[nodiscard]] Tensor hf_causal_lm(WrappedModel& model, const Tensor& input, std::size_t head,
                                  const std::function<Tensor(const Tensor& tokens)>& run_model);

/// Errors (usage): scaled_dot_product_attention has no fused kernel here that the tape knows.
[[nodiscard]] Result<void> hf_check_attention(const ModelConfig& model, DType compute);

}  // namespace foreshard::model

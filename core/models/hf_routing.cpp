#include "core/models/hf_routing.hpp"

#include "core/kernel/kernel_cost.hpp"
#include "core/models/hf_expert_ops.hpp"

namespace foreshard::model {
namespace {

/// topk_weights /= topk_weights.sum(dim=-1, keepdim=True)
Tensor add_up(Tape& tape, const Tensor& scores, double least) {
  Tensor total = sum_last(tape, scores);
  if (least > 0) total = add_scalar(tape, total, least);
  return divide_in_place(tape, scores, total);
}

/// MixtralTopKRouter.forward, Qwen3MoeTopKRouter.forward
Routing softmax_route(Tape& tape, const HfExperts& weights, const Tensor& tokens) {
  Routing out;
  const Tensor flat = view(tape, tokens, tokens->shape);
  out.logits = linear(tape, flat, weights.router);
  Tensor wide = to(tape, out.logits, DType::float32);
  const Tensor probabilities = softmax(tape, wide);
  wide.reset();
  const Chosen best = topk(tape, probabilities, weights.per_token);
  out.experts = best.indices;
  out.scores = weights.adds_up ? add_up(tape, best.values, 0) : best.values;
  if (weights.casts_scores) out.scores = to(tape, out.scores, out.logits->dtype);
  return out;
}

/// group_scores: the two best of each group, added up.
Tensor scores_of_groups(Tape& tape, const HfExperts& weights, const Tensor& scores) {
  constexpr std::uint64_t kBestOfGroup = 2;
  const std::uint64_t tokens = scores->dim(0);
  const Tensor by_group = view(tape, scores, {tokens, weights.groups, scores->dim(1) / weights.groups});
  const Chosen best = topk(tape, by_group, kBestOfGroup);
  return view(tape, sum_last(tape, best.values), {tokens, weights.groups});
}

/// 1 for the experts of the groups, 0 for others: repeated from the groups, but where one group is all of them.
Tensor mask_of_groups(Tape& tape, const Tensor& groups, const Tensor& chosen, std::uint64_t experts) {
  Tensor mask = run_kernel(tape, {}, groups->shape, DType::float32, "aten::zero_");
  tape.launch(Launch::elementwise, "aten::scatter_", bytes_cost(2 * chosen->bytes()));
  const std::uint64_t each = experts / groups->dim(1);
  return expand(tape, unsqueeze(tape, mask, -1), {groups->dim(0), groups->dim(1), each});
}

/// route_tokens_to_experts' names: they live until it returns and are dropped from the last one on.
struct BestExperts {
  Tensor mask;
  Tensor group_mask;
  Tensor chosen;
  Tensor groups;
  Tensor scores;
  Tensor experts;
};

/// The scores with a correction bias, 0 outside of the groups with the largest sums of two; the best of what is left.
/// Nothing flows back through these, but its nodes keep what they saved.
BestExperts best_of_groups(Tape& tape, const HfExperts& weights, const Tensor& scores) {
  BestExperts out;
  out.scores = add_scalar(tape, scores, 0);  // e_score_correction_bias
  out.groups = scores_of_groups(tape, weights, out.scores);
  out.chosen = topk(tape, out.groups, weights.groups_per_token, false).indices;
  out.group_mask = mask_of_groups(tape, out.groups, out.chosen, scores->dim(1));
  out.mask = reshape(tape, out.group_mask, scores->shape);
  Tensor kept = run_kernel(tape, {out.mask}, scores->shape, DType::bool8, "aten::copy_");
  const Tensor left_out = run_kernel(tape, {kept}, scores->shape, DType::bool8, "aten::bitwise_not");
  kept.reset();
  out.scores = masked_fill(tape, out.scores, left_out);
  out.experts = topk(tape, out.scores, weights.per_token, false).indices;
  return out;
}

/// DeepseekV3TopkRouter.forward and route_tokens_to_experts: all in float32, hidden states and weight included.
Routing grouped_route(Tape& tape, const HfExperts& weights, const Tensor& tokens) {
  constexpr double kDenominator = 1e-20;
  Routing out;
  Tensor wide = to(tape, tokens, DType::float32);
  Tensor router = to(tape, weights.router, DType::float32);
  out.logits = linear(tape, wide, router);
  wide.reset();
  router.reset();
  const Tensor scores = of_result(tape, out.logits, "aten::sigmoid");
  const BestExperts best = best_of_groups(tape, weights, scores);
  out.experts = best.experts;
  out.scores = gather_last(tape, scores, out.experts);
  if (weights.adds_up) out.scores = add_up(tape, out.scores, kDenominator);
  out.scores = mul_scalar(tape, out.scores, weights.scale);
  return out;
}

}  // namespace

Routing hf_route(Tape& tape, const HfExperts& weights, const Tensor& tokens) {
  tape.spend(HostCall::module);
  return weights.groups > 0 ? grouped_route(tape, weights, tokens) : softmax_route(tape, weights, tokens);
}

}  // namespace foreshard::model

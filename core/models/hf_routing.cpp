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
  return out;
}

/// The scores with a correction bias, 0 outside of the groups with the largest sums of two; the best of what is left.
/// Their gradients lead nowhere: indices have none.
Tensor best_of_groups(Tape& tape, const HfExperts& weights, const Tensor& scores) {
  constexpr std::uint64_t kBestOfGroup = 2;
  const std::uint64_t tokens = scores->dim(0);
  const std::uint64_t experts = scores->dim(1);
  const Shape groups{tokens, weights.groups};
  const Tensor corrected = run_kernel(tape, {scores}, scores->shape, DType::float32, "aten::add");
  const Tensor by_group = view(tape, corrected, {tokens, weights.groups, experts / weights.groups});
  const Chosen best = topk(tape, by_group, kBestOfGroup);
  const Tensor sums = run_kernel(tape, {best.values}, groups, DType::float32, "aten::sum", Launch::reduction);
  const Chosen chosen = topk(tape, sums, weights.groups_per_token);
  const Tensor group_mask = run_kernel(tape, {}, groups, DType::float32, "aten::zero_");
  tape.launch(Launch::elementwise, "aten::scatter_", bytes_cost(2 * chosen.indices->bytes()));
  const Tensor mask = run_kernel(tape, {group_mask}, scores->shape, DType::float32, "aten::copy_");
  const Tensor kept = run_kernel(tape, {mask}, scores->shape, DType::bool8, "aten::copy_");
  const Tensor left_out = run_kernel(tape, {kept}, scores->shape, DType::bool8, "aten::bitwise_not");
  const Tensor masked = run_kernel(tape, {corrected}, scores->shape, DType::float32, "aten::copy_");
  tape.launch(Launch::elementwise, "aten::masked_fill_", bytes_cost(left_out->bytes() + 2 * masked->bytes()));
  return topk(tape, masked, weights.per_token).indices;
}

/// DeepseekV3TopkRouter.forward and route_tokens_to_experts: all in float32, hidden states and weight included.
Routing grouped_route(Tape& tape, const HfExperts& weights, const Tensor& tokens) {
  constexpr double kDenominator = 1e-20;
  Routing out;
  out.logits = linear(tape, to(tape, tokens, DType::float32), to(tape, weights.router, DType::float32));
  const Tensor scores = of_result(tape, out.logits, "aten::sigmoid");
  out.experts = best_of_groups(tape, weights, scores);
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

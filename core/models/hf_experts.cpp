#include "core/models/hf_experts.hpp"

#include "core/kernel/kernel_cost.hpp"
#include "core/models/hf_expert_ops.hpp"
#include "core/models/hf_routing.hpp"

namespace foreshard::model {
namespace {

/// _default_apply_gate: silu(gate) * up of the two halves.
Tensor apply_gate(Tape& tape, const Tensor& gate_up) {
  const Tensors halves = chunk(tape, gate_up, -1, 2);
  const Tensor active = activation(tape, halves[0], "aten::silu");
  return mul(tape, active, halves[1]);
}

/// offsets of the experts' rows: histc and cumsum of the sorted expert numbers.
struct Offsets {
  Tensor input;
  Tensor counts;
  Tensor ends;
};

Offsets row_offsets(Tape& tape, const Tensor& sorted, std::uint64_t experts) {
  Offsets out;
  out.input = run_kernel(tape, {sorted}, sorted->shape, DType::int32, "aten::copy_");
  out.counts = run_kernel(tape, {}, {experts}, DType::int32, "aten::zero_");
  tape.launch(Launch::reduction, "aten::histc", bytes_cost(out.input->bytes()));
  out.ends = cumsum(tape, out.counts);
  return out;
}

struct Combined {
  Tensor inverse;
  Tensor sum;
  Tensor result;
};

/// Rows back in the tokens' order, and a token's added up.
Combined combine(Tape& tape, Tensor& weighted, std::uint64_t per_token, const Tensor& tokens) {
  const std::uint64_t rows = weighted->dim(0);
  Combined out;
  out.inverse = tape.empty({rows}, DType::int64);
  {
    const Tensor range = run_kernel(tape, {}, {rows}, DType::int64, "aten::arange");
    tape.launch(Launch::elementwise, "aten::index_put_", bytes_cost(3 * out.inverse->bytes()));
  }
  weighted = index_rows(tape, weighted, out.inverse);
  out.sum = sum_middle(tape, view(tape, weighted, {tokens->dim(0), per_token, tokens->dim(1)}));
  out.result = to(tape, out.sum, tokens->dtype);
  return out;
}

/// grouped_mm_experts_forward
Tensor run_experts(Tape& tape, const HfExperts& weights, const Tensor& tokens, const Routing& routing) {
  tape.spend(HostCall::module);
  const std::uint64_t count = tokens->dim(0);
  const std::uint64_t rows = count * weights.per_token;
  Tensor scores = reshape(tape, routing.scores, {rows});
  Tensor ids = reshape(tape, routing.experts, {rows});
  Chosen sorted = sort(tape, ids);
  Tensor source = run_kernel(tape, {sorted.indices}, {rows}, DType::int64, "aten::floor_divide");
  Tensor states = index_rows(tape, tokens, source);
  source.reset();
  Tensor row_scores = index_rows(tape, scores, sorted.indices);
  Offsets offsets = row_offsets(tape, sorted.values, weights.gate_up->dim(0));
  Tensor absent = run_kernel(tape, {sorted.values}, {rows}, DType::bool8, "aten::ge");
  tape.launch(Launch::elementwise, "aten::clamp_", bytes_cost(2 * sorted.values->bytes()));
  states = masked_fill_in_place(tape, states, absent);

  Tensor out = hf_grouped_products(tape, weights, states, offsets.ends, absent);
  Tensor weighted = mul(tape, out, unsqueeze(tape, row_scores, -1));
  Combined combined = combine(tape, weighted, weights.per_token, tokens);

  for (Tensor* local : {&scores, &ids, &sorted.values, &sorted.indices, &states, &row_scores, &offsets.input,
                        &offsets.counts, &offsets.ends, &absent, &out, &weighted, &combined.inverse, &combined.sum})
    local->reset();
  return combined.result;
}

/// The same where rows go to the ranks that have their experts: no row's expert is absent.
Tensor run_elsewhere(Tape& tape, const HfExperts& weights, const Tensor& tokens, const Routing& routing,
                     const RunRows& elsewhere) {
  tape.spend(HostCall::module);
  const std::uint64_t rows = tokens->dim(0) * weights.per_token;
  const Tensor scores = reshape(tape, routing.scores, {rows});
  const Tensor ids = reshape(tape, routing.experts, {rows});
  const Tensor counts = run_kernel(tape, {}, {weights.router->dim(0)}, DType::int64, "aten::zero_");
  tape.launch(Launch::reduction, "aten::histc", bytes_cost(ids->bytes()));
  const Chosen sorted = sort(tape, ids);
  const Tensor source = run_kernel(tape, {sorted.indices}, {rows}, DType::int64, "aten::floor_divide");
  const Tensor states = index_rows(tape, tokens, source);
  const Tensor row_scores = index_rows(tape, scores, sorted.indices);
  const Tensor out = elsewhere(states, counts);
  Tensor weighted = mul(tape, out, unsqueeze(tape, row_scores, -1));
  return combine(tape, weighted, weights.per_token, tokens).result;
}

}  // namespace

Tensor hf_grouped_products(Tape& tape, const HfExperts& weights, const Tensor& rows, const Tensor& ends,
                           const Tensor& absent) {
  Tensor out = grouped_mm(tape, rows, transpose(tape, weights.gate_up, -2, -1), ends);
  if (absent) out = masked_fill(tape, out, absent);
  out = apply_gate(tape, out);
  out = grouped_mm(tape, out, transpose(tape, weights.down, -2, -1), ends);
  if (absent) out = masked_fill(tape, out, absent);
  return out;
}

Tensor hf_experts(Tape& tape, const HfExperts& weights, const Tensor& x, const RunRows& elsewhere) {
  tape.spend(HostCall::module);
  const auto flat = [&] { return view(tape, x, {x->dim(0) * x->dim(1), x->dim(2)}); };
  Tensor tokens = flat();
  Routing routing = hf_route(tape, weights, tokens);
  if (weights.groups > 0) tokens = flat();  // DeepseekV3MoE: its router has a view of its own
  Tensor out = elsewhere ? run_elsewhere(tape, weights, tokens, routing, elsewhere)
                         : run_experts(tape, weights, tokens, routing);
  out = reshape(tape, out, x->shape);
  if (weights.shared) {
    Tensor shared = hf_feed_forward(tape, *weights.shared, x);
    Tensor sum = add(tape, out, shared);
    shared.reset();
    out = std::move(sum);
  }
  routing.logits.reset();
  routing.scores.reset();
  return out;
}

}  // namespace foreshard::model

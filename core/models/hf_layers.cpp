#include "core/models/hf_layers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/kernel/kernel_cost.hpp"

namespace foreshard::model {
namespace {

// sdp_utils.cpp, cudnn_frontend: what cuDNN's attention takes on sm90 (PyTorch 2.11).
constexpr std::uint64_t kHeadMultiple = 8;
constexpr std::uint64_t kLargestHead = 128;
/// The same of heads whose v is narrower than q and k, which nothing but cuDNN 9.10 and the memory-efficient kernel
/// take.
constexpr std::uint64_t kLargestLatentHead = 256;

/// rotate_half: cat((-x2, x1)).
Tensor rotate_half(Tape& tape, const Tensor& x) {
  const std::uint64_t half = x->dim(-1) / 2;
  const Tensor x1 = narrow(tape, x, -1, 0, half);
  const Tensor x2 = narrow(tape, x, -1, half, half);
  const Tensor negated = neg(tape, x2);
  return cat(tape, {negated, x1}, -1);
}

/// x * cos + rotate_half(x) * sin
Tensor rotate(Tape& tape, const Tensor& x, const Tensor& cos, const Tensor& sin) {
  Tensor straight = mul(tape, x, cos);
  Tensor half = rotate_half(tape, x);
  Tensor turned = mul(tape, half, sin);
  half.reset();
  Tensor out = add(tape, straight, turned);
  straight.reset();
  turned.reset();
  return out;
}

/// emb.cos() * attention_scaling
Tensor table(Tape& tape, const Tensor& angles, std::string_view label) {
  const Tensor plain = run_kernel(tape, {angles}, angles->shape, angles->dtype, label);
  return run_kernel(tape, {plain}, plain->shape, plain->dtype, "aten::mul");
}

}  // namespace

Tensor hf_positions(Tape& tape, std::uint64_t seq) {
  const Tensor range = run_kernel(tape, {}, {seq}, DType::int64, "aten::arange");
  return run_kernel(tape, {range}, {seq}, DType::int64, "aten::add");
}

void hf_packed_sequence_check(Tape& tape, const Tensor& positions, std::uint64_t batch) {
  const std::uint64_t seq = positions->numel();
  Tensor before = run_kernel(tape, {}, {batch, 1}, DType::int64, "aten::sub");
  Tensor joined = run_kernel(tape, {positions}, {batch, seq + 1}, DType::int64, "aten::cat");
  Tensor difference = run_kernel(tape, {joined}, {batch, seq}, DType::int64, "aten::sub");
  joined.reset();
  Tensor jumps = run_kernel(tape, {difference}, {batch, seq}, DType::bool8, "aten::ne");
  Tensor sequence = tape.empty({batch, seq}, DType::int64);
  Tensor counts = run_kernel(tape, {jumps}, {batch, seq}, DType::int64, "aten::copy_");
  tape.launch(Launch::reduction, "aten::cumsum", bytes_cost(counts->bytes() + sequence->bytes()));
  counts.reset();
  jumps.reset();
  Tensor single = run_kernel(tape, {}, {batch}, DType::bool8, "aten::eq");
  Tensor all = run_kernel(tape, {single}, {}, DType::bool8, "aten::all", Launch::reduction);
  single.reset();
  tape.copy(CopyKind::device_to_host, all->bytes(), "aten::_local_scalar_dense");
  tape.synchronize();
  all.reset();
  before.reset();
  difference.reset();
  sequence.reset();
}

RotaryTables hf_rotary_tables(Tape& tape, const Tensor& positions, const RotarySizes& sizes) {
  const std::uint64_t seq = positions->numel();
  const std::uint64_t half = sizes.head_dim / 2;
  Tensor inverse;
  if (sizes.on_host) {
    inverse = tape.empty({1, half, 1}, DType::float32);
    tape.copy(CopyKind::host_to_device, inverse->bytes(), "aten::_to_copy");
    tape.synchronize();  // from pageable memory
  }
  Tensor expanded = run_kernel(tape, {positions}, {1, 1, seq}, DType::float32, "aten::copy_");
  Tensor frequencies = tape.empty({1, half, seq}, DType::float32);
  tape.launch_gemm("aten::bmm", half, seq, 1, DType::float32);
  Tensor angles = run_kernel(tape, {frequencies}, {1, seq, sizes.head_dim}, DType::float32, "aten::cat");
  Tensor cos = table(tape, angles, "aten::cos");
  Tensor sin = table(tape, angles, "aten::sin");
  RotaryTables out{to(tape, cos, sizes.dtype), to(tape, sin, sizes.dtype)};
  inverse.reset();
  expanded.reset();
  frequencies.reset();
  angles.reset();
  cos.reset();
  sin.reset();
  return out;
}

RotatedHeads hf_apply_rotary(Tape& tape, const Tensor& q, const Tensor& k, const RotaryTables& tables) {
  const Tensor cos = unsqueeze(tape, tables.cos, 1);
  const Tensor sin = unsqueeze(tape, tables.sin, 1);
  Tensor turned_q = rotate(tape, q, cos, sin);
  Tensor turned_k = rotate(tape, k, cos, sin);
  return {turned_q, turned_k};
}

/// rms_norm_eps of most configurations; no request depends on it, and pow has no function to run with it.
constexpr double kVarianceEps = 1e-6;

Tensor hf_rms_norm(Tape& tape, const Tensor& x, const Tensor& weight) {
  tape.spend(HostCall::module);
  Tensor hidden = to(tape, x, DType::float32);
  Tensor squares = pow(tape, hidden, 2);
  Tensor variance = mean_last(tape, squares);
  squares.reset();
  Tensor shifted = add_scalar(tape, variance, kVarianceEps);
  Tensor inverse = rsqrt(tape, shifted);
  shifted.reset();
  Tensor scaled = mul(tape, hidden, inverse);
  inverse.reset();
  hidden = std::move(scaled);
  Tensor cast = to(tape, hidden, x->dtype);
  Tensor out = mul(tape, weight, cast);
  cast.reset();
  hidden.reset();
  variance.reset();
  return out;
}

namespace {

Tensor causal_lm_loss(Tape& tape, const Tensor& logits, const Tensor& labels) {
  const std::uint64_t batch = labels->dim(0);
  const std::uint64_t seq = labels->dim(1);
  Tensor wide = to(tape, logits, DType::float32);
  // F.pad fills the row, then copies the labels into it.
  Tensor padded = run_kernel(tape, {}, {batch, seq + 1}, DType::int64, "aten::fill_");
  tape.launch(Launch::elementwise, "aten::copy_", bytes_cost(2 * labels->bytes()));
  Tensor shifted = run_kernel(tape, {labels}, {batch, seq}, DType::int64, "aten::copy_");
  wide = view(tape, wide, {batch * seq, wide->dim(-1)});
  shifted = view(tape, shifted, {batch * seq});
  Tensor loss = cross_entropy(tape, wide, shifted);
  wide.reset();
  padded.reset();
  shifted.reset();
  return loss;
}

}  // namespace

Tensor hf_causal_lm(WrappedModel& model, const Tensor& input, std::size_t head,
                    const std::function<Tensor(const Tensor& tokens)>& run_model) {
  Tape& tape = model.tape();
  Tensor tokens = input;
  model.root_pre_forward({&tokens});
  Tensor hidden = run_model(tokens);
  tape.spend(HostCall::module);
  const Tensor kept = view(tape, hidden, hidden->shape);  // hidden_states[:, slice_indices, :]
  Tensor logits = linear(tape, kept, model.parameter(head));
  Tensor loss = causal_lm_loss(tape, logits, tokens);
  logits.reset();
  hidden.reset();
  model.root_post_forward(loss);
  return loss;
}

Result<void> hf_check_attention(const ModelConfig& model, DType compute) {
  if (itemsize(compute) != 2 && model.kv_heads != model.heads)
    return fail(ErrorKind::usage, fmt::format("{}: grouped-query attention in float32 has no fused kernel", model.name),
                {}, "choose param_dtype bfloat16");
  const bool latent = model.latent.kv_rank > 0;
  const std::uint64_t largest = latent ? kLargestLatentHead : kLargestHead;
  if (itemsize(compute) == 2 && (model.head_dim % kHeadMultiple != 0 || model.latent.value % kHeadMultiple != 0 ||
                                 std::max(model.head_dim, model.latent.value) > largest))
    return fail(ErrorKind::usage,
                fmt::format("{}: attention with a head dimension of {} takes another kernel than the one that is known",
                            model.name, model.head_dim),
                {}, fmt::format("head dimensions up to {} in multiples of 8 are known", largest));
  return {};
}

}  // namespace foreshard::model

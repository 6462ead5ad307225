#include "core/models/ops.hpp"

namespace foreshard::model {

Tensor linear_layer(Tape& tape, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  tape.spend(HostCall::module);
  if (!weight->low_rank) return linear(tape, x, weight, bias);
  // result = base_layer(x); result + lora_B(lora_A(lora_dropout(x))) * scaling, with nn.Identity for no dropout.
  constexpr double kScaling = 2;  // lora_alpha / r: its value changes no request
  tape.spend(HostCall::module);
  Tensor base = linear(tape, x, weight, bias);
  tape.spend(HostCall::module);
  Tensor inner = linear(tape, x, weight->low_rank->a);
  tape.spend(HostCall::module);
  Tensor outer = linear(tape, inner, weight->low_rank->b);
  inner.reset();
  Tensor scaled = mul_scalar(tape, outer, kScaling);
  outer.reset();
  Tensor out = add(tape, base, scaled);
  base.reset();
  scaled.reset();
  return out;
}

}  // namespace foreshard::model

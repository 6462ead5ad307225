#include "core/models/llama_compiled.hpp"

#include <memory>

#include "core/models/compiled_block.hpp"
#include "core/models/inductor_first_run.hpp"

namespace foreshard::model {

Tensor compiled_llama_block(Tape& tape, const LlamaBlock& block, const Tensor& x) {
  auto kept = std::make_shared<CompiledKept>();
  const Tensors inputs{x,        block.attn_norm, block.wq, block.wk, block.wv,
                       block.wo, block.ffn_norm,  block.w1, block.w3, block.w2};
  LlamaBlock weights = block;
  weights.cos.reset();  // kept, and dropped, with the rest
  weights.sin.reset();
  const auto back = [&tape, weights, kept](Node&, const Tensors& gradients) {
    return CompiledBlock(tape, weights, gradients[0]).backward(gradients[0], *kept);
  };
  const NodePtr node = tape.record(inputs, back);
  compile_first(tape);
  CompiledBlock compiled(tape, block, x);
  kept->x = tape.detach(x);
  kept->cos = block.cos;
  kept->sin = block.sin;
  Tensor out = compiled.forward(x, *kept);
  Tape::attach(node, out);
  return out;
}

}  // namespace foreshard::model

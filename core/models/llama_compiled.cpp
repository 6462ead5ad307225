#include "core/models/llama_compiled.hpp"

#include "core/models/compiled_block.hpp"

namespace foreshard::model {

Tensor compiled_llama_block(Tape& tape, const std::shared_ptr<InductorFirstRun>& first, const LlamaBlock& block,
                            const Tensor& x) {
  auto kept = std::make_shared<CompiledKept>();
  const Tensors inputs{x,        block.attn_norm, block.wq, block.wk, block.wv,
                       block.wo, block.ffn_norm,  block.w1, block.w3, block.w2};
  LlamaBlock weights = block;
  weights.cos.reset();  // kept, and dropped, with the rest
  weights.sin.reset();
  const auto back = [&tape, first, weights, kept](Node&, const Tensors& gradients) {
    return CompiledBlock(tape, *first, weights, gradients[0]).backward(gradients[0], *kept);
  };
  const NodePtr node = tape.record(inputs, back);
  first->compile();
  CompiledBlock compiled(tape, *first, block, x);
  kept->x = tape.detach(x);
  kept->cos = block.cos;
  kept->sin = block.sin;
  Tensor out = compiled.forward(x, *kept);
  Tape::attach(node, out);
  return out;
}

}  // namespace foreshard::model

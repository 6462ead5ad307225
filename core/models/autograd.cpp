// Autograd's part of the tape: graph, engine and checkpointing (torch/csrc/autograd/engine.cpp, input_buffer.cpp,
// functions/accumulate_grad.h; torch/utils/checkpoint.py; PyTorch 2.11).
#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <set>

#include "core/base/check.hpp"
#include "core/models/reduction.hpp"
#include "core/models/tape.hpp"

namespace foreshard::model {
namespace {

/// A weight in float8 is, to autograd, of the dtype that it was cast from (torchao's Float8TrainingTensor).
DType gradient_dtype(const TensorImpl& x) {
  return is_float8(x.dtype) ? DType::bfloat16 : x.dtype;
}

}  // namespace

NodePtr Tape::gradient_edge(const Tensor& tensor) {
  if (!tensor || !tensor->requires_grad) return nullptr;
  if (tensor->grad_fn) return tensor->grad_fn;
  if (!tensor->parameter.valid()) return nullptr;
  const std::size_t index = tensor->parameter.value;
  if (accumulators_.size() <= index) accumulators_.resize(index + 1);
  NodePtr& node = accumulators_[index];
  if (!node) {
    node = std::make_shared<Node>();
    node->sequence = std::numeric_limits<std::uint64_t>::max();  // AccumulateGrad runs before anything else
    node->accumulates = tensor->parameter;
  }
  return node;
}

NodePtr Tape::record(const Tensors& inputs, Node::Apply apply, std::uint32_t outputs) {
  const auto needs = [](const Tensor& t) { return t && t->requires_grad; };
  if (!grad_enabled_ || std::none_of(inputs.begin(), inputs.end(), needs)) return nullptr;
  auto node = std::make_shared<Node>();
  node->sequence = next_sequence_++;
  node->outputs = outputs;
  node->apply = std::move(apply);
  for (const Tensor& input : inputs) {
    node->next.push_back({gradient_edge(input), input ? input->output : 0});
    node->inputs.push_back(input ? Node::Metadata{input->shape, gradient_dtype(*input)} : Node::Metadata{});
  }
  return node;
}

void Tape::attach(const NodePtr& node, const Tensor& output, std::uint32_t index) {
  if (!node) return;
  output->requires_grad = true;
  output->grad_fn = node;
  output->output = index;
}

/// pack_hook of _checkpoint_hook and of _recomputation_hook; without them the SavedVariable itself. A saved output
/// must not own its own node: only its memory matters here.
void Tape::save(const NodePtr& node, const Tensor& tensor) {
  if (!node) return;
  if (saving_to_) {
    node->saved.push_back({nullptr, saving_to_, saving_to_->saved++});
    return;
  }
  auto kept = std::make_shared<TensorImpl>(*tensor);
  kept->grad_fn = nullptr;
  kept->requires_grad = false;
  node->saved.push_back({kept, nullptr, 0});
  if (!recomputing_) return;
  recomputing_->recomputed.push_back(kept);
  if (recomputing_->recomputed.size() == recomputing_->saved) throw StopRecomputation{};
}

Tensor Tape::unpack(Saved& saved) {
  if (!saved.frame) return saved.tensor;
  CheckpointFrame& frame = *saved.frame;
  if (!frame.done) {
    const auto outer = std::exchange(recomputing_, saved.frame);
    const bool backward = std::exchange(in_backward_, true);
    grad_enabled_ = true;
    frame.products = 0;
    const std::uint64_t drawn = std::exchange(drawn_, frame.drawn);
    try {
      frame.recompute();
    } catch (const StopRecomputation&) {
    }
    drawn_ = drawn;
    grad_enabled_ = false;
    in_backward_ = backward;
    recomputing_ = outer;
    frame.done = true;
  }
  return std::exchange(frame.recomputed[saved.index], nullptr);
}

Tensors Tape::checkpoint(const std::function<Tensors()>& forward, bool selective) {
  auto frame = std::make_shared<CheckpointFrame>();
  frame->selective = selective;
  frame->drawn = drawn_;
  frame->recompute = [forward] { forward(); };
  const auto outer = std::exchange(saving_to_, frame);
  Tensors out = forward();
  saving_to_ = outer;
  return out;
}

namespace {

/// torchtitan's policy (apply_ac, selective by op): attention, and the first, third, … GEMM.
bool selects(CheckpointFrame& frame, Selected kind) {
  return frame.selective && (kind == Selected::attention || frame.products++ % 2 == 0);
}

}  // namespace

Tensors Tape::reuse(Selected kind) {
  if (!recomputing_ || !selects(*recomputing_, kind)) return {};
  Tensors out;
  for (const Tensor& tensor : std::exchange(recomputing_->kept[recomputing_->reused++], {}))
    out.push_back(tensor ? std::make_shared<TensorImpl>(*tensor) : nullptr);
  return out;
}

void Tape::keep(Selected kind, const Tensors& made) {
  if (recomputing_ || !saving_to_ || !selects(*saving_to_, kind)) return;
  Tensors kept;
  for (const Tensor& tensor : made) kept.push_back(tensor ? detach(tensor) : nullptr);
  saving_to_->kept.push_back(std::move(kept));
}

/// Nodes that can run, the latest of the forward first; the gradients that wait for the others.
class Tape::Engine {
 public:
  Engine(Tape& tape, const NodePtr& root) : tape_(tape) { count(root); }

  void put(const NodePtr& node, std::uint32_t input, Tensor gradient) {
    std::vector<Tensor>& buffer = buffers_[node.get()];
    if (buffer.empty()) buffer.resize(node->outputs);
    if (!gradient) return;
    tape_.accumulate(buffer[input], std::move(gradient));
  }
  /// One edge into `node` is done; it is ready with the last.
  void arrived(const NodePtr& node) {
    if (--missing_[node.get()] > 0) return;
    missing_.erase(node.get());
    ready(node);
  }
  void ready(const NodePtr& node) { queue_.push({node->sequence, order_++, node}); }
  void run();

 private:
  struct Task {
    std::uint64_t sequence;
    std::uint64_t order;
    NodePtr node;
    bool operator<(const Task& other) const {
      return sequence != other.sequence ? sequence < other.sequence : order > other.order;
    }
  };

  void count(const NodePtr& root) {
    std::vector<Node*> stack{root.get()};
    std::set<Node*> seen{root.get()};
    while (!stack.empty()) {
      Node* node = stack.back();
      stack.pop_back();
      for (const Edge& edge : node->next) {
        if (!edge.node) continue;
        ++missing_[edge.node.get()];
        if (seen.insert(edge.node.get()).second) stack.push_back(edge.node.get());
      }
    }
  }
  void evaluate(const NodePtr& node);

  Tape& tape_;
  std::priority_queue<Task> queue_;
  std::map<Node*, std::uint32_t> missing_;        // looked up only
  std::map<Node*, std::vector<Tensor>> buffers_;  // looked up only
  std::uint64_t order_ = 0;
};

void Tape::Engine::run() {
  while (!queue_.empty()) {
    const NodePtr node = queue_.top().node;
    queue_.pop();
    evaluate(node);
  }
}

/// evaluate_function: tensor pre-hooks, the node, its saved tensors, then the next nodes' buffers.
void Tape::Engine::evaluate(const NodePtr& node) {
  Tensors gradients = std::move(buffers_[node.get()]);
  buffers_.erase(node.get());
  for (const auto& hook : node->pre_hooks) hook();
  if (node->accumulates.valid()) {
    tape_.accumulate_gradient(*node, std::exchange(gradients[0], nullptr));
    return;
  }
  tape_.spend(HostCall::backward_view);
  Tensors outputs = node->apply(*node, gradients);
  FORESHARD_CHECK(outputs.size() == node->next.size(), "a backward gives one gradient for each forward input");
  tape_.validate(*node, outputs);
  for (Tensor& gradient : gradients) gradient.reset();
  for (Saved& saved : node->saved) saved = {};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Edge& edge = node->next[i];
    if (!edge.node) continue;
    put(edge.node, edge.input, std::exchange(outputs[i], nullptr));
    arrived(edge.node);
  }
}

/// InputBuffer::accumulate: into the older one where nothing else holds it; a tracked view's base does.
void Tape::accumulate(Tensor& into, Tensor gradient) {
  if (!into) {
    into = std::move(gradient);
    return;
  }
  const bool in_place = into.use_count() == 1 && !into->base && into->storage && into->storage.use_count() == 1;
  if (!in_place) {
    Tensor sum = empty_like(into);
    launch("aten::add", KernelOp::add, sum, into, gradient);
    into = sum;
    return;
  }
  launch("aten::add_", KernelOp::add, into, into, gradient);
}

/// at::sum_to: over leading dimensions (a bias, a norm's weight), or over the last one.
Tensor Tape::sum_to(const Tensor& gradient, const Shape& shape) {
  Tensor sum = empty(shape, gradient->dtype);
  const bool last = shape.size() == gradient->shape.size() && shape.back() != gradient->shape.back();
  const ReductionWorkspace needed =
      reduction_workspace({sum->numel(), gradient->numel() / sum->numel(), last}, options_.sm_count);
  Tensor staging;
  Tensor semaphores;
  if (needed.staging > 0) {
    staging = workspace(needed.staging);
    semaphores = workspace(needed.semaphores);
    launch_memset(needed.semaphores);
  }
  CostOverride priced;
  if (!last && shape.back() == 1)
    priced = {"a single column is summed as columns are",
              {},
              KernelMath{.dtype = gradient->dtype, .m = gradient->numel(), .access = MemoryAccess::column}};
  launch_sum("aten::sum", sum, gradient, 1, priced);
  semaphores.reset();
  return sum;
}

/// validate_outputs: a gradient is summed to its input's size and cast to its dtype.
void Tape::validate(const Node& node, Tensors& gradients) {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    Tensor& gradient = gradients[i];
    if (!gradient || !node.wants(i)) {
      gradient.reset();
      continue;
    }
    const Node::Metadata& input = node.inputs[i];
    if (gradient->shape != input.shape) gradient = sum_to(gradient, input.shape);
    if (gradient->dtype != input.dtype) {
      const Tensor cast = empty_like(gradient, input.dtype);
      launch("aten::copy_", KernelOp::copy, cast, gradient);
      gradient = cast;
    }
  }
}

/// AccumulateGrad: takes the gradient over where the parameter has none, else adds in place.
void Tape::accumulate_gradient(const Node& node, Tensor gradient) {
  spend(HostCall::accumulate_grad);
  if (!gradient) return;
  if (options_.gradients_persist) {
    const Tensor held = elsewhere({Operand::Kind::gradient, node.accumulates.value}, gradient->shape, gradient->dtype);
    launch_priced("aten::add_", {.op = KernelOp::add}, at_the_rate("AccumulateGrad, by its bytes"), held, held,
                  gradient);
    return;
  }
  if (!gradient->storage || gradient.use_count() > 1) {  // somebody else holds it: cloned
    const Tensor copy = empty(gradient->shape, gradient->dtype);
    launch_priced("aten::clone", {.op = KernelOp::copy}, at_the_rate("AccumulateGrad, by its bytes"), copy, gradient);
    gradient = copy;
  }
  Op& op = ops_[alloc_op_[gradient->storage->id().value]];
  op.gradient_of = node.accumulates;
  gradient->storage->disown();
}

void Tape::backward(const Tensor& loss) {
  FORESHARD_CHECK(loss->grad_fn != nullptr, "the loss needs a gradient function");
  const Tensor root_gradient = empty_like(loss);  // ones_like, held by torch.autograd.backward until the end
  launch_priced("aten::fill_", {.op = KernelOp::fill}, at_the_rate("ones_like of a scalar"), root_gradient);
  in_backward_ = true;
  grad_enabled_ = false;
  {
    Engine engine(*this, loss->grad_fn);
    engine.put(loss->grad_fn, loss->output, root_gradient);
    engine.ready(loss->grad_fn);
    engine.run();
  }
  hook(Hook::backward_final);
  in_backward_ = false;
  grad_enabled_ = true;
}

}  // namespace foreshard::model

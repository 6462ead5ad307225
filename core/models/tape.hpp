// An eager tape: runs a model's ops without data and writes down what eager PyTorch 2.11 would ask for, in order.
//
// Who: the families of core/models. A Tensor is a counted handle as in PyTorch; when the last handle to a
// storage goes (a name bound again, a function's exit, a saved tensor released by autograd) the tape writes the free.
// So a family's generator mirrors the lifetimes of its Python source: locals are reset where Python drops them.
// Ops (ops.hpp) allocate, launch and record autograd nodes; backward() walks the nodes as torch/csrc/autograd/
// engine.cpp does. FSDP2's own work is not written: hooks mark where core/step puts it back.
//
// Not thread-safe. Deterministic. Tensors and nodes must not outlive their tape.
#pragma once

#include <array>
#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/check.hpp"
#include "core/base/dtype.hpp"
#include "core/kernel/kernel_cost.hpp"
#include "core/models/host_calls.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::model {

class Tape;
struct Node;
struct LowRankUpdate;
struct TensorImpl;
using Shape = std::vector<std::uint64_t>;
using Tensor = std::shared_ptr<TensorImpl>;
using Tensors = std::vector<Tensor>;
using NodePtr = std::shared_ptr<Node>;

/// One allocation; writes its free when the last tensor on it goes. Memory that FSDP owns has none.
class Storage {
 public:
  Storage(Tape& tape, TensorId id) : tape_(tape), id_(id) {}
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  [[nodiscard]] TensorId id() const { return id_; }
  /// FSDP frees it from now on.
  void disown() { owned_ = false; }

 private:
  Tape& tape_;
  TensorId id_;
  bool owned_ = true;
};

struct TensorImpl {
  std::shared_ptr<Storage> storage;  ///< null: memory of FSDP's (parameters) or of setup
  Operand elsewhere;                 ///< that memory
  Bytes offset = 0;                  ///< of the first element in the memory
  Shape shape;
  Shape strides;  ///< in elements
  DType dtype = DType::float32;
  Tensor base;  ///< of a view that autograd tracks; keeps it from being accumulated into in place
  bool requires_grad = false;
  NodePtr grad_fn;
  std::uint32_t output = 0;                       ///< which of grad_fn's outputs
  ParameterId parameter;                          ///< of parameters
  std::shared_ptr<const LowRankUpdate> low_rank;  ///< of a linear layer's weight: LoRA's update beside it

  [[nodiscard]] std::uint64_t numel() const;
  [[nodiscard]] Bytes bytes() const { return numel() * itemsize(dtype); }
  [[nodiscard]] std::uint64_t dim(int i) const { return shape[i < 0 ? shape.size() + static_cast<std::size_t>(i) : i]; }
  [[nodiscard]] bool contiguous() const;
};

/// peft.tuners.lora.Linear: lora_B(lora_A(x)) * scaling is added to what the layer gives.
struct LowRankUpdate {
  Tensor a;  ///< rank × in
  Tensor b;  ///< out × rank
};

/// As an operand of a kernel.
[[nodiscard]] TensorView view_of(const TensorImpl& x);

/// A checkpointed region's saved tensors (torch/utils/checkpoint.py, _CheckpointFrame).
struct CheckpointFrame {
  std::function<void()> recompute;  ///< runs the region's forward again
  std::uint32_t saved = 0;          ///< tensors saved by the original forward
  std::vector<Tensor> recomputed;
  bool done = false;
  bool selective = false;      ///< keeps the results of attention and of every other GEMM
  std::vector<Tensors> kept;   ///< those, in order
  std::size_t reused = 0;      ///< of `kept`, by the recomputation
  std::uint32_t products = 0;  ///< GEMMs so far, of the forward or of the recomputation
  std::uint64_t drawn = 0;     ///< random numbers before it: a recomputation draws the same (preserve_rng_state)
};

/// What selective checkpointing may keep.
enum class Selected : std::uint8_t { product = 0, attention = 1 };

/// What a node keeps for its backward: the tensor, or a holder inside a checkpointed region.
struct Saved {
  Tensor tensor;
  std::shared_ptr<CheckpointFrame> frame;
  std::uint32_t index = 0;
};

struct Edge {
  NodePtr node;
  std::uint32_t input = 0;
};

/// One autograd node. `apply` gets one gradient for each forward output (null: none) and gives one for each edge,
/// in the order of next_edges; an edge without a node wants none.
struct Node {
  using Apply = std::function<Tensors(Node&, const Tensors& gradients)>;
  std::uint64_t sequence = 0;
  std::vector<Edge> next;
  std::vector<Saved> saved;  ///< in the order release_variables() drops them: inputs by name, then outputs by name
  std::uint32_t outputs = 1;
  Apply apply;
  std::vector<std::function<void()>> pre_hooks;
  ParameterId accumulates;  ///< AccumulateGrad of this parameter
  struct Metadata {
    Shape shape;
    DType dtype = DType::float32;
  };
  std::vector<Metadata> inputs;  ///< of the forward's inputs: gradients are summed and cast to them (validate_outputs)

  [[nodiscard]] bool wants(std::size_t edge) const { return next[edge].node != nullptr; }
};

/// Thrown inside a recomputation when its last saved tensor is there (_StopRecomputationError).
struct StopRecomputation {};

/// Where the rule of core/kernel/kernel_cost.hpp is not what eager PyTorch's kernel is priced at, and why.
struct CostOverride {
  std::string_view reason = {};
  std::optional<Bytes> bytes = {};
  std::optional<KernelMath> math = {};
};
/// Elements not counted: priced by bytes at the profile's rate of memory-bound kernels.
[[nodiscard]] inline CostOverride at_the_rate(std::string_view reason) {
  return {reason, {}, KernelMath{}};
}

/// What kind of launch it is for the host; the tape takes the backward's kind in backward.
enum class Launch : std::uint8_t { elementwise, reduction, gemm, attention, embedding, random };

struct TapeOptions {
  bool first_step = false;         ///< library workspaces are made
  bool gradients_persist = false;  ///< parameters have a .grad from an earlier microbatch: autograd adds into it
  Bytes cublas_workspace = 0;      ///< one for each thread that runs a GEMM
  std::uint32_t sm_count = 0;      ///< of the GPU that the program is for; needed
  Bytes l2 = 0;                    ///< of that GPU
  bool flash_attention = false;    ///< of 16-bit types: flash rather than cuDNN's (TargetGpu)
  bool keep_kernels = false;       ///< keep the kernels' descriptions (Program::kernels), for a device that runs them
};

class Tape {
 public:
  Tape(Labels& labels, const HostCosts& host, const TapeOptions& options)
      : labels_(labels), host_(host), options_(options) {
    FORESHARD_CHECK(options.sm_count > 0, "a tape is of a GPU that has SMs");
  }

  // Memory.
  [[nodiscard]] Tensor empty(const Shape& shape, DType dtype);
  /// With the same order of dimensions in memory as `like`, dense (empty_like, TensorIterator outputs).
  [[nodiscard]] Tensor empty_like(const Tensor& like, DType dtype);
  [[nodiscard]] Tensor empty_like(const Tensor& like) { return empty_like(like, like->dtype); }
  /// A raw buffer inside an op.
  [[nodiscard]] Bytes l2() const { return options_.l2; }
  [[nodiscard]] Tensor workspace(Bytes bytes) { return empty({bytes}, DType::uint8); }
  /// FSDP's unsharded parameter `p`, of `dtype`: owns no memory here. What is made with it is of the module that has
  /// it.
  [[nodiscard]] Tensor parameter(ParameterId id, const Parameter& p, DType dtype);
  /// A contiguous tensor in memory that this program does not own: of setup, or a gradient that autograd holds.
  [[nodiscard]] static Tensor elsewhere(const Operand& memory, const Shape& shape, DType dtype);

  // Views: no memory. `tracked`: autograd keeps the base (everything but _unsafe_view and detach).
  // `offset`: elements from its first.
  [[nodiscard]] Tensor alias(const Tensor& of, Shape shape, Shape strides, bool tracked = true,
                             std::uint64_t offset = 0);
  [[nodiscard]] Tensor detach(const Tensor& of);

  // Launches and host time.
  void spend(HostCall call);
  void spend(Nanoseconds time) { pending_host_ += time; }
  /// One kernel: its op and its operands, outputs first; a null one is absent. What it costs follows from them
  /// (core/kernel/kernel_cost.hpp), and a device that runs the program runs it.
  template <std::same_as<Tensor>... Operands>
  void launch(std::string_view label, KernelOp op, const Operands&... operands) {
    launch_priced(label, {.op = op}, {}, operands...);
  }
  template <std::same_as<Tensor>... Operands>
  void launch(std::string_view label, const Kernel& what, const Operands&... operands) {
    launch_priced(label, what, {}, operands...);
  }
  void launch(std::string_view label, const Kernel& what, const Tensors& operands);
  /// Where eager PyTorch's kernel costs something else than the rule says.
  template <std::same_as<Tensor>... Operands>
  void launch_priced(std::string_view label, const Kernel& what, const CostOverride& priced,
                     const Operands&... operands) {
    write_launch(label, what, priced, std::array<const TensorImpl*, sizeof...(operands)>{operands.get()...});
  }
  /// KernelOp::sum_to: `out` has the sizes of `x` that are kept, aligned at the last dimension, or 1.
  void launch_sum(std::string_view label, const Tensor& out, const Tensor& x, double alpha = 1,
                  const CostOverride& priced = {});
  /// A kernel of PyTorch's whose work is part of a neighbouring launch's Kernel: known by its cost alone.
  void launch_fused(Launch kind, std::string_view label, const KernelWork& cost);
  /// A kernel that no KernelOp stands for: known by its cost alone. Its program can be priced, not run.
  void launch(Launch kind, std::string_view label, const KernelWork& cost);
  /// The same of `batch` products of m × k by k × n.
  void launch_gemm(std::string_view label, std::uint64_t m, std::uint64_t n, std::uint64_t k, DType dtype,
                   std::uint32_t batch = 1, GemmUse use = GemmUse::forward);
  void launch_memset(Bytes bytes);
  /// The launch just written is not all that its kernel says, or is more: its program cannot be run.
  void not_as_described();
  /// Whether this is a process' first step, and the first time that `what` of this size is asked for.
  [[nodiscard]] bool first_time(std::string_view what, Bytes size = 0) {
    return options_.first_step && met_.emplace(what, size).second;
  }
  /// Before a product with a bias: it goes through cublasLt, which has a workspace of its own.
  void need_cublas_lt();
  void copy(CopyKind kind, Bytes bytes, std::string_view label);
  /// A memcpy of all of `x` on the device.
  void copy(const Tensor& out, const Tensor& x, std::string_view label);
  void synchronize();
  /// _c10d_functional.all_reduce(x) over the tensor-parallel group, and wait_tensor: a copy of `x`, summed in place on
  /// the group's own stream.
  [[nodiscard]] Tensor all_reduce(const Tensor& x);
  /// _c10d_functional.all_to_all_single(x) over the expert-parallel group, and wait_tensor: `rows` rows come back in a
  /// fresh tensor, by the group's own stream.
  [[nodiscard]] Tensor all_to_all(const Tensor& x, std::uint64_t rows);
  void hook(Hook hook, UnitId unit = {});
  /// Allocations from here on are casts of this unit's forward inputs (invalid: ends).
  void casting_inputs_of(UnitId unit) { casting_ = unit; }

  /// For a kernel that draws `count` random numbers: the first one's place among the program's.
  [[nodiscard]] std::uint64_t draw(std::uint64_t count) { return std::exchange(drawn_, drawn_ + count); }

  // Autograd.
  /// A node for an op on `inputs` (one edge each); null when no input requires a gradient.
  [[nodiscard]] NodePtr record(const Tensors& inputs, Node::Apply apply, std::uint32_t outputs = 1);
  void save(const NodePtr& node, const Tensor& tensor);
  static void attach(const NodePtr& node, const Tensor& output, std::uint32_t index = 0);
  [[nodiscard]] Tensor unpack(Saved& saved);
  /// loss.backward(): root gradient, all nodes, backward_final, as Engine::execute.
  void backward(const Tensor& loss);
  /// Runs `forward` under non-reentrant activation checkpointing with early stop.
  Tensors checkpoint(const std::function<Tensors()>& forward, bool selective = false);
  /// While a selectively checkpointed region runs again: what this op gave in the forward, if that was kept; else
  /// nothing. Ops that can be kept ask first, and hand what they made to keep().
  [[nodiscard]] Tensors reuse(Selected kind);
  void keep(Selected kind, const Tensors& made);

  /// Autograd's own ops: not those of a forward that runs again.
  [[nodiscard]] bool in_backward() const { return in_backward_ && !recomputing_; }
  [[nodiscard]] const TapeOptions& options() const { return options_; }
  void set_gradients_persist(bool persist) { options_.gradients_persist = persist; }
  [[nodiscard]] std::vector<Op>& ops() { return ops_; }
  /// The program, with each allocation's category (as traces/capture names it). Tensors must be gone.
  [[nodiscard]] Program finish();

 private:
  friend class Storage;
  Op& emit(OpKind kind);
  void write_free(TensorId id);
  std::shared_ptr<Storage> allocate(Bytes bytes);
  void need_cublas();
  /// Whether ops go through selective checkpointing's dispatch modes: in a region's forward, and when it runs again.
  [[nodiscard]] bool dispatched() const {
    return (saving_to_ && saving_to_->selective) || (recomputing_ && recomputing_->selective);
  }
  void keep_workspace(Bytes bytes);
  using OperandList = std::span<const TensorImpl* const>;
  void emit_kernel(std::string_view label, const KernelWork& cost);
  void emit_gemm(std::string_view label, const KernelWork& cost);
  void write_launch(std::string_view label, Kernel what, const CostOverride& priced, OperandList operands);
  void keep_kernel(Kernel what, OperandList operands);
  void note_module(OperandList operands);
  void write_modules();
  void fused();
  void issue_collective(CollectiveKind kind, Bytes bytes, std::string_view label);
  void write_kernels(Program& program);
  class Engine;
  void accumulate_gradient(const Node& node, Tensor gradient);
  void accumulate(Tensor& into, Tensor gradient);
  [[nodiscard]] Tensor sum_to(const Tensor& gradient, const Shape& shape);
  void validate(const Node& node, Tensors& gradients);
  NodePtr gradient_edge(const Tensor& tensor);

  Labels& labels_;
  const HostCosts& host_;
  TapeOptions options_;
  std::vector<Op> ops_;
  std::vector<std::size_t> alloc_op_;  // by TensorId: index of its alloc
  std::vector<ProgramKernel> kernels_;
  std::vector<std::string> module_of_;                             // by ParameterId
  std::vector<std::pair<std::size_t, ParameterId>> launched_for_;  // launches with a parameter among their operands
  std::uint32_t fused_ = kNoKernel;                                // place of the one description of launch_fused()
  std::uint64_t drawn_ = 0;                                        // random numbers so far
  Nanoseconds pending_host_;
  UnitId casting_;
  std::uint64_t next_sequence_ = 0;
  std::set<std::pair<std::string, Bytes>> met_;  // by first_time()
  std::vector<NodePtr> accumulators_;            // by ParameterId
  bool grad_enabled_ = true;
  bool in_backward_ = false;
  bool forward_workspace_ = false;
  bool backward_workspace_ = false;
  bool forward_lt_workspace_ = false;
  bool backward_lt_workspace_ = false;
  std::shared_ptr<CheckpointFrame> saving_to_;    // region whose forward runs
  std::shared_ptr<CheckpointFrame> recomputing_;  // region that runs again
};

}  // namespace foreshard::model

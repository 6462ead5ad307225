#include "gpu/kernels/attention.hpp"

#include <array>
#include <limits>
#include <map>

#include "gpu/kernels/attention_plain.hpp"
#include "gpu/kernels/cudnn_graph.hpp"

namespace foreshard::gpu {
namespace {

using Four = CudnnGraph::Four;
using Tensor = CudnnGraph::Tensor;
using Place = CudnnGraph::Place;

constexpr std::size_t kOldest = 90600;
constexpr cudnnDataType_t kFloat = CUDNN_DATA_FLOAT;

/// Names of the tensors that run() gives addresses for.
enum Id : std::int64_t {
  q_id = 1,
  k_id,
  v_id,
  out_id,
  stats_id,
  scale_id,
  masked_id,
  d_out_id,
  one_id,
  delta_id,
  dq_id,
  dk_id,
  dv_id,
  dq_sum_id
};

struct Shape {
  std::int64_t batch, heads, kv_heads, queries, keys, dim;
  [[nodiscard]] Four scores() const { return {batch, heads, queries, keys}; }
  [[nodiscard]] Four rows() const { return {batch, heads, queries, 1}; }
  [[nodiscard]] Four all_keys() const { return {batch, heads, keys, dim}; }
};

Four four(const std::vector<std::uint64_t>& values) {
  Four out{1, 1, 1, 1};
  for (std::size_t d = 0; d < 4; ++d) out[d] = static_cast<std::int64_t>(values[d]);
  return out;
}

/// Sizes, and strides that say something where the size is 1 too: cuDNN reads them.
Four strides_of(const Argument& a) {
  Four out = four(a.view->strides);
  for (std::size_t d = 0; d < 4; ++d)
    if (a.size(d) == 1 && out[d] == 0) out[d] = 1;
  return out;
}

Shape shape_of(const Argument& q, const Argument& k) {
  const Four a = four(q.view->shape);
  const Four b = four(k.view->shape);
  return {a[0], a[1], b[1], a[2], b[2], a[3]};
}

cudnnDataType_t cudnn_type(DType dtype) {
  return dtype == DType::bfloat16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

class Builder {
 public:
  Builder(const Shape& shape, cudnnDataType_t type) : s(shape), type_(type) {}

  Tensor operand(std::int64_t id, const Argument& a) {
    return graph.tensor(id, type_, four(a.view->shape), strides_of(a), Place::device);
  }
  /// Its last two dimensions swapped.
  Tensor transposed(std::int64_t id, const Argument& a) {
    Four sizes = four(a.view->shape);
    Four strides = strides_of(a);
    std::swap(sizes[2], sizes[3]);
    std::swap(strides[2], strides[3]);
    return graph.tensor(id, type_, sizes, strides, Place::device);
  }
  Tensor number(std::int64_t id) { return graph.tensor(id, kFloat, {1, 1, 1, 1}, {1, 1, 1, 1}, Place::by_value); }
  /// [batch, heads, queries, 1] of float32 without gaps.
  Tensor rows(std::int64_t id) {
    return graph.tensor(id, kFloat, s.rows(), {s.heads * s.queries, s.queries, 1, 1}, Place::device);
  }
  Tensor scores(cudnnDataType_t type = kFloat) { return graph.inside(type, s.scores()); }

  Tensor binary(cudnnPointwiseMode_t mode, Tensor a, Tensor b) {
    const Tensor y = scores();
    graph.pointwise(mode, {a, b, nullptr}, y);
    return y;
  }
  /// −∞ where a key comes after its query.
  Tensor masked(Tensor x) {
    const Tensor row = scores(CUDNN_DATA_INT32);
    graph.pointwise(CUDNN_POINTWISE_GEN_INDEX, {x, nullptr, nullptr}, row, kFloat, 2);
    const Tensor column = scores(CUDNN_DATA_INT32);
    graph.pointwise(CUDNN_POINTWISE_GEN_INDEX, {x, nullptr, nullptr}, column, kFloat, 3);
    const Tensor seen = scores(CUDNN_DATA_BOOLEAN);
    graph.pointwise(CUDNN_POINTWISE_CMP_GE, {row, column, nullptr}, seen, CUDNN_DATA_BOOLEAN);
    const Tensor y = scores();
    graph.pointwise(CUDNN_POINTWISE_BINARY_SELECT, {x, number(masked_id), seen}, y);
    return y;
  }

  Shape s;
  CudnnGraph graph;

 private:
  cudnnDataType_t type_;
};

Result<std::unique_ptr<CudnnPlan>> forward_plan(const Arguments& args, cudnnHandle_t handle) {
  const Argument q = args[2];
  Builder b(shape_of(q, args[3]), cudnn_type(q.dtype()));
  const Shape& s = b.s;
  Tensor x = b.scores();
  b.graph.matmul(b.operand(q_id, q), b.transposed(k_id, args[3]), x);
  x = b.binary(CUDNN_POINTWISE_MUL, x, b.number(scale_id));
  if (args.kernel.causal) x = b.masked(x);
  const Tensor largest = b.graph.inside(kFloat, s.rows());
  b.graph.reduce(CUDNN_REDUCE_TENSOR_MAX, x, largest);
  x = b.binary(CUDNN_POINTWISE_SUB, x, largest);
  const Tensor exponential = b.scores();
  b.graph.pointwise(CUDNN_POINTWISE_EXP, {x, nullptr, nullptr}, exponential);
  const Tensor sum = b.graph.inside(kFloat, s.rows());
  b.graph.reduce(CUDNN_REDUCE_TENSOR_ADD, exponential, sum);
  const Tensor log = b.graph.inside(kFloat, s.rows());
  b.graph.pointwise(CUDNN_POINTWISE_LOG, {sum, nullptr, nullptr}, log);
  b.graph.pointwise(CUDNN_POINTWISE_ADD, {largest, log, nullptr}, b.rows(stats_id));
  const Tensor probabilities = b.scores(cudnn_type(q.dtype()));
  b.graph.pointwise(CUDNN_POINTWISE_DIV, {exponential, sum, nullptr}, probabilities);
  b.graph.matmul(probabilities, b.operand(v_id, args[4]), b.operand(out_id, args[0]));
  return b.graph.finish(handle);
}

/// The gradient of keys or values: scoresᵀ · rows, and with grouped heads the sum over each group.
void transposed_product(Builder& b, Tensor scores, cudnnDataType_t type, Tensor rows, std::int64_t id,
                        const Argument& gradient) {
  const Shape& s = b.s;
  const Tensor turned = b.graph.tensor(id + 500, type, {s.batch, s.heads, s.keys, s.queries},
                                       {s.heads * s.queries * s.keys, s.queries * s.keys, 1, s.keys}, Place::inside);
  b.graph.reshape(scores, turned);
  if (s.heads == s.kv_heads) {
    b.graph.matmul(turned, rows, b.operand(id, gradient));
    return;
  }
  const Tensor every_head = b.graph.inside(type, s.all_keys());
  b.graph.matmul(turned, rows, every_head);
  b.graph.reduce(CUDNN_REDUCE_TENSOR_ADD, every_head, b.operand(id, gradient));
}

Result<std::unique_ptr<CudnnPlan>> backward_plan(const Arguments& args, cudnnHandle_t handle) {
  const Argument query = args[4];
  const Argument key = args[5];
  const cudnnDataType_t type = cudnn_type(query.dtype());
  Builder b(shape_of(query, key), type);
  const Shape& s = b.s;
  const Tensor d_out = b.operand(d_out_id, args[3]);
  const Tensor q = b.operand(q_id, query);
  const Tensor kt = b.transposed(k_id, key);
  const Tensor scale = b.number(scale_id);
  // delta = Σ dO · O, times 1 as the library's pattern has it (dropout's place)
  const Tensor product = b.graph.inside(kFloat, {s.batch, s.heads, s.queries, s.dim});
  b.graph.pointwise(CUDNN_POINTWISE_MUL, {d_out, b.operand(out_id, args[7]), nullptr}, product);
  const Tensor summed = b.graph.inside(kFloat, s.rows());
  b.graph.reduce(CUDNN_REDUCE_TENSOR_ADD, product, summed);
  const Tensor delta = b.rows(delta_id);
  b.graph.pointwise(CUDNN_POINTWISE_MUL, {summed, b.number(one_id), nullptr}, delta);
  // P = exp(scale × q·k − logsumexp); dV = Pᵀ·dO
  Tensor x = b.scores();
  b.graph.matmul(q, kt, x);
  x = b.binary(CUDNN_POINTWISE_MUL, x, scale);
  x = b.binary(CUDNN_POINTWISE_SUB, x, b.rows(stats_id));
  if (args.kernel.causal) x = b.masked(x);
  const Tensor p = b.scores();
  b.graph.pointwise(CUDNN_POINTWISE_EXP, {x, nullptr, nullptr}, p);
  transposed_product(b, p, type, d_out, dv_id, args[2]);
  // dS = P × (dO·Vᵀ − delta) × scale; dK = dSᵀ·Q
  Tensor ds = b.scores();
  b.graph.matmul(d_out, b.transposed(v_id, args[6]), ds);
  ds = b.binary(CUDNN_POINTWISE_SUB, ds, delta);
  ds = b.binary(CUDNN_POINTWISE_MUL, ds, p);
  ds = b.binary(CUDNN_POINTWISE_MUL, ds, scale);
  transposed_product(b, ds, type, q, dk_id, args[1]);
  // dQ = dS·K, summed in float32 by the blocks of the kernel
  const Tensor k_again = b.graph.tensor(600, type, four(key.view->shape), strides_of(key), Place::inside);
  b.graph.reshape(kt, k_again);
  const Tensor dq_sum = b.graph.tensor(dq_sum_id, kFloat, {s.batch, s.heads, s.queries, s.dim},
                                       {s.heads * s.queries * s.dim, s.queries * s.dim, s.dim, 1}, Place::device);
  b.graph.matmul(ds, k_again, dq_sum);
  b.graph.pointwise(CUDNN_POINTWISE_IDENTITY, {dq_sum, nullptr, nullptr}, b.operand(dq_id, args[0]));
  return b.graph.finish(handle);
}

class CudnnAttention final : public Attention {
 public:
  explicit CudnnAttention(cudnnHandle_t handle) : handle_(handle) {}
  ~CudnnAttention() override {
    plans_.clear();
    cudnnDestroy(handle_);
  }

  Result<void> run(const Arguments& args, Workspace& workspace) override {
    const bool backward = args.kernel.op == KernelOp::attention_backward;
    FORESHARD_TRY(check(args, backward));
    const Argument q = args[backward ? 4 : 2];
    if (itemsize(q.dtype()) != 2) return run_plain_attention(args, workspace);
    const CudnnPlan* plan = plan_of(args, backward);
    if (plan == nullptr) return run_plain_attention(args, workspace);
    if (args.stream != stream_) {
      FORESHARD_TRY(cudnn_status(cudnnSetStream(handle_, args.stream), "cudnnSetStream"));
      stream_ = args.stream;
    }
    return backward ? run_backward(args, *plan, workspace) : run_forward(args, *plan, workspace);
  }

  [[nodiscard]] const std::string& refusal() const override { return refusal_; }

 private:
  static Result<void> check(const Arguments& args, bool backward) {
    const char* name = backward ? "attention_backward" : "attention";
    for (std::size_t i = 0; i < (backward ? 9U : 5U); ++i) {
      const Argument a = args[i];
      if (!a.present()) return bad_operand(name, i, "is absent");
      const bool statistics = i == (backward ? 8U : 1U);
      if (statistics ? a.dtype() != DType::float32 || a.rank() < 3 : a.rank() != 4 || !is_float_up_to_32(a.dtype()))
        return bad_operand(name, i, "has another rank or dtype than attention takes");
    }
    const Argument q = args[backward ? 4 : 2];
    const Argument k = args[backward ? 5 : 3];
    if (q.size(3) != k.size(3) || k.size(1) == 0 || q.size(1) % k.size(1) != 0)
      return bad_operand(name, backward ? 5 : 3, "does not fit the queries");
    return {};
  }

  /// Null: cuDNN has no kernel for it.
  const CudnnPlan* plan_of(const Arguments& args, bool backward) {
    std::vector<std::uint64_t> key{backward ? 1U : 0U, args.kernel.causal ? 1U : 0U};
    const std::size_t count = backward ? 9 : 5;
    for (std::size_t i = 0; i < count; ++i) {
      const Argument a = args[i];
      key.push_back(static_cast<std::uint64_t>(a.dtype()));
      key.insert(key.end(), a.view->shape.begin(), a.view->shape.end());
      key.insert(key.end(), a.view->strides.begin(), a.view->strides.end());
      if (!a.aligned(16)) return refused("an operand that is not on a boundary of 16 bytes");
    }
    const Argument statistics = args[backward ? 8 : 1];
    const Argument q = args[backward ? 4 : 2];
    if (statistics.view->strides[1] != q.size(2) || statistics.view->strides[2] != 1)
      return refused("log-sum-exps with gaps");
    const auto known = plans_.find(key);
    if (known != plans_.end()) return known->second.get();
    Result<std::unique_ptr<CudnnPlan>> plan = backward ? backward_plan(args, handle_) : forward_plan(args, handle_);
    std::unique_ptr<CudnnPlan>& slot = plans_[key];
    if (!plan) return refused(plan.error().text());
    slot = std::move(*plan);
    return slot.get();
  }

  const CudnnPlan* refused(std::string why) {
    refusal_ = std::move(why);
    return nullptr;
  }

  Result<void> run_forward(const Arguments& args, const CudnnPlan& plan, Workspace& workspace) {
    Result<void*> scratch = workspace.reserve(plan.workspace());
    FORESHARD_TRY(scratch);
    float scale = static_cast<float>(args.kernel.alpha);
    float masked = -std::numeric_limits<float>::infinity();
    const std::array<std::int64_t, 7> ids{q_id, k_id, v_id, out_id, stats_id, scale_id, masked_id};
    const std::array<void*, 7> pointers{args[2].data, args[3].data, args[4].data, args[0].data,
                                        args[1].data, &scale,       &masked};
    const std::size_t count = args.kernel.causal ? 7 : 6;
    return plan.run(handle_, {ids.data(), count}, {pointers.data(), count}, *scratch);
  }

  Result<void> run_backward(const Arguments& args, const CudnnPlan& plan, Workspace& workspace) {
    // dq's sums and delta first, then the plan's own workspace.
    const Argument q = args[4];
    const Bytes sums = round_up(q.numel() * sizeof(float), 256);
    const Bytes deltas = round_up(q.rows() * sizeof(float), 256);
    const Bytes needed = sums + deltas + plan.workspace();
    std::byte* scratch = nullptr;
    for (std::size_t i = 9; i < args.count() && scratch == nullptr; ++i) {
      const Argument given = args[i];
      if (given.present() && given.aligned(256) && given.numel() * itemsize(given.dtype()) >= needed)
        scratch = static_cast<std::byte*>(given.data);
    }
    if (scratch == nullptr) {
      Result<void*> own = workspace.reserve(needed);
      FORESHARD_TRY(own);
      scratch = static_cast<std::byte*>(*own);
    }
    float scale = static_cast<float>(args.kernel.alpha);
    float one = 1;
    float masked = -std::numeric_limits<float>::infinity();
    const std::array<std::int64_t, 14> ids{q_id,  k_id,  v_id,     out_id,    stats_id, d_out_id, dq_id,
                                           dk_id, dv_id, delta_id, dq_sum_id, scale_id, one_id,   masked_id};
    const std::array<void*, 14> pointers{args[4].data, args[5].data, args[6].data, args[7].data, args[8].data,
                                         args[3].data, args[0].data, args[1].data, args[2].data, scratch + sums,
                                         scratch,      &scale,       &one,         &masked};
    const std::size_t count = args.kernel.causal ? 14 : 13;
    return plan.run(handle_, {ids.data(), count}, {pointers.data(), count}, scratch + sums + deltas);
  }

  cudnnHandle_t handle_;
  cudaStream_t stream_ = nullptr;
  std::string refusal_;
  std::map<std::vector<std::uint64_t>, std::unique_ptr<CudnnPlan>> plans_;
};

}  // namespace

Result<std::unique_ptr<Attention>> Attention::create() {
  if (cudnnGetVersion() < kOldest)
    return device_failure("cuDNN is older than 9.6", {}, "put a newer libcudnn.so.9 first in LD_LIBRARY_PATH");
  cudnnHandle_t handle = nullptr;
  FORESHARD_TRY(cudnn_status(cudnnCreate(&handle), "cudnnCreate"));
  return std::make_unique<CudnnAttention>(handle);
}

}  // namespace foreshard::gpu

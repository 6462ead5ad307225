#include "gpu/kernels/gemm.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <unordered_map>

namespace foreshard::gpu {
namespace {

constexpr std::uint64_t kBestAlignment = 256;

/// One operand as cuBLASLt sees it: column-major, perhaps transposed.
struct Matrix {
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::uint64_t leading = 0;
  std::uint64_t batch_stride = 0;
  bool transposed = false;
  DType dtype = DType::float32;
  void* data = nullptr;

  [[nodiscard]] std::uint64_t alignment() const {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    return address == 0 ? kBestAlignment : std::min<std::uint64_t>(kBestAlignment, address & -address);
  }
};

/// Everything that decides the library's choice, as numbers without gaps between them.
using Key = std::array<std::uint64_t, 20>;

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t hash = 0xcbf29ce484222325ULL;
    for (const std::uint64_t word : key) {
      hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
      hash ^= hash >> 29U;
    }
    return hash;
  }
};

cudaDataType_t cuda_type(DType dtype) {
  switch (dtype) {
    case DType::bfloat16:
      return CUDA_R_16BF;
    case DType::float16:
      return CUDA_R_16F;
    case DType::float64:
      return CUDA_R_64F;
    case DType::float8_e4m3fn:
      return CUDA_R_8F_E4M3;
    case DType::float8_e5m2:
      return CUDA_R_8F_E5M2;
    default:
      return CUDA_R_32F;
  }
}

/// `view`'s matrix (its last two dimensions) read so that its columns are the dimension `along` (0: first, 1: last) of
/// op(): the operand of op() has `rows` = size of the other one. See gemm_of for what is asked.
Result<Matrix> matrix(const Argument& a, bool swap, std::size_t operand) {
  const std::size_t first = a.rank() - 2;
  const std::size_t row = swap ? first + 1 : first;
  const std::size_t column = swap ? first : first + 1;
  const std::uint64_t rows = a.size(row);
  const std::uint64_t columns = a.size(column);
  const std::uint64_t row_stride = a.view->strides[row];
  const std::uint64_t column_stride = a.view->strides[column];
  Matrix m;
  m.dtype = a.dtype();
  m.data = a.data;
  m.batch_stride = first == 1 ? a.view->strides[0] : 0;
  if ((rows == 1 || row_stride == 1) && (columns == 1 || column_stride >= rows)) {
    m.rows = rows;
    m.columns = columns;
    m.leading = columns == 1 ? rows : column_stride;
    return m;
  }
  if ((columns == 1 || column_stride == 1) && (rows == 1 || row_stride >= columns)) {
    m.rows = columns;
    m.columns = rows;
    m.leading = rows == 1 ? columns : row_stride;
    m.transposed = true;
    return m;
  }
  return bad_operand("gemm", operand, "has no dimension of unit stride");
}

/// What cuBLASLt computes: d (m × n, column-major) = op(a) · op(b).
struct GemmShape {
  Matrix a, b, d;
  const void* bias = nullptr;     ///< null: none
  const void* a_scale = nullptr;  ///< of float8 operands; null: none
  const void* b_scale = nullptr;
  bool fast_accumulation = false;
  std::uint64_t m = 0, n = 0, k = 0, batch = 1;
};

/// scaled_mm: what undoes the casts of a and b, on the sides that they have in cuBLASLt's product.
Result<void> add_scales(GemmShape& p, const Arguments& args, bool flipped) {
  for (const std::size_t i : {std::size_t{3}, std::size_t{4}})
    if (!args[i].present() || args[i].dtype() != DType::float32 || args[i].numel() != 1)
      return bad_operand("scaled_mm", i, "is not one float32");
  for (const std::size_t i : {std::size_t{3}, std::size_t{4}})
    if (!args[i].aligned(16)) return bad_operand("scaled_mm", i, "is not on a boundary of 16 bytes");
  // Hopper multiplies float8 in one layout alone: both operands lie along k, and 16 bytes are the least step.
  if (!p.a.transposed || p.b.transposed) return bad_operand("scaled_mm", 1, "does not lie along k, or operand 2 not");
  for (const Matrix* matrix : {&p.a, &p.b, &p.d})
    if (matrix->leading * itemsize(matrix->dtype) % 16 != 0 || matrix->alignment() < 16)
      return bad_operand("scaled_mm", matrix == &p.d ? 0 : 1, "has rows that begin off boundaries of 16 bytes");
  p.a_scale = args[flipped ? 4 : 3].data;
  p.b_scale = args[flipped ? 3 : 4].data;
  p.fast_accumulation = args.kernel.integers.at(0) != 0;
  return {};
}

/// A row-major out[m, n] = a·b is, column-major, outᵀ[n, m] = bᵀ·aᵀ; a column-major out is computed as it stands.
Result<GemmShape> gemm_of(const Arguments& args) {
  const Argument out = args[0];
  const Argument a = args[1];
  const Argument b = args[2];
  for (std::size_t i = 0; i < 3; ++i) {
    if (!args[i].present()) return bad_operand("gemm", i, "is absent");
    if (args[i].rank() != out.rank() || out.rank() < 2 || out.rank() > 3)
      return bad_operand("gemm", i, "is no matrix or batch of matrices");
  }
  const std::size_t first = out.rank() - 2;
  GemmShape p;
  p.batch = first == 1 ? out.size(0) : 1;
  if (a.size(first) != out.size(first) || b.size(first + 1) != out.size(first + 1) ||
      a.size(first + 1) != b.size(first) || (first == 1 && (a.size(0) != p.batch || b.size(0) != p.batch)))
    return bad_operand("gemm", 1, "does not fit the others' sizes");
  // outᵀ: its rows are out's last dimension.
  Result<Matrix> d = matrix(out, true, 0);
  const bool flipped = d && !d->transposed;
  if (!flipped) d = matrix(out, false, 0);
  FORESHARD_TRY(d);
  if (d->transposed) return bad_operand("gemm", 0, "has rows that overlap");
  Result<Matrix> left = matrix(flipped ? b : a, flipped, flipped ? 2 : 1);
  Result<Matrix> right = matrix(flipped ? a : b, flipped, flipped ? 1 : 2);
  FORESHARD_TRY(left);
  FORESHARD_TRY(right);
  p.a = *left;
  p.b = *right;
  p.d = *d;
  p.m = d->rows;
  p.n = d->columns;
  p.k = a.size(first + 1);
  if (args.kernel.op == KernelOp::scaled_mm) {
    FORESHARD_TRY(add_scales(p, args, flipped));
    return p;
  }
  if (args[3].present() && (!flipped || !args[3].contiguous() || args[3].numel() != p.m))
    return bad_operand("gemm", 3, "is not a contiguous bias of one value per column");
  p.bias = args[3].data;
  return p;
}

Key key_of(const GemmShape& p, const Arguments& args) {
  const std::uint64_t flags = (p.a.transposed ? 1U : 0U) | (p.b.transposed ? 2U : 0U) |
                              (args.kernel.accumulate ? 4U : 0U) | (p.bias != nullptr ? 8U : 0U) |
                              (p.fast_accumulation ? 16U : 0U);
  const auto dtypes = static_cast<std::uint64_t>(p.a.dtype) | static_cast<std::uint64_t>(p.b.dtype) << 8U |
                      static_cast<std::uint64_t>(p.d.dtype) << 16U | static_cast<std::uint64_t>(args[3].dtype()) << 24U;
  return {p.m,
          p.n,
          p.k,
          p.batch,
          p.a.leading,
          p.b.leading,
          p.d.leading,
          p.a.batch_stride,
          p.b.batch_stride,
          p.d.batch_stride,
          flags,
          dtypes,
          p.a.alignment(),
          p.b.alignment(),
          p.d.alignment(),
          p.bias != nullptr ? (args[3].aligned(16) ? 16U : 4U) : 0U};
}

struct Plan {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  Bytes workspace = 0;

  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    if (a != nullptr) cublasLtMatrixLayoutDestroy(a);
    if (b != nullptr) cublasLtMatrixLayoutDestroy(b);
    if (d != nullptr) cublasLtMatrixLayoutDestroy(d);
    if (operation != nullptr) cublasLtMatmulDescDestroy(operation);
  }
};

Result<void> layout(cublasLtMatrixLayout_t& out, const Matrix& m, std::uint64_t batch) {
  FORESHARD_TRY(cublas_status(
      cublasLtMatrixLayoutCreate(&out, cuda_type(m.dtype), m.rows, m.columns, static_cast<std::int64_t>(m.leading)),
      "cublasLtMatrixLayoutCreate"));
  if (batch == 1) return {};
  const auto count = static_cast<std::int32_t>(batch);
  const auto stride = static_cast<std::int64_t>(m.batch_stride);
  FORESHARD_TRY(cublas_status(
      cublasLtMatrixLayoutSetAttribute(out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), "batch count"));
  return cublas_status(
      cublasLtMatrixLayoutSetAttribute(out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
      "batch stride");
}

template <class T>
Result<void> set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  return cublas_status(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value),
                       "cublasLtMatmulDescSetAttribute");
}

/// The pointers that change from call to call.
Result<void> point(cublasLtMatmulDesc_t operation, const GemmShape& p) {
  if (p.bias != nullptr) FORESHARD_TRY(set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias));
  if (p.a_scale == nullptr) return {};
  FORESHARD_TRY(set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.a_scale));
  return set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.b_scale);
}

Result<void> describe(Plan& plan, const GemmShape& p, const Arguments& args) {
  const bool wide = p.d.dtype == DType::float64;
  FORESHARD_TRY(cublas_status(cublasLtMatmulDescCreate(&plan.operation, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                                       wide ? CUDA_R_64F : CUDA_R_32F),
                              "cublasLtMatmulDescCreate"));
  FORESHARD_TRY(set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, p.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
  FORESHARD_TRY(set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSB, p.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
  if (p.bias != nullptr) {
    FORESHARD_TRY(set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
    FORESHARD_TRY(set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cuda_type(args[3].dtype())));
  }
  if (p.fast_accumulation) FORESHARD_TRY(set(plan.operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1}));
  FORESHARD_TRY(point(plan.operation, p));
  FORESHARD_TRY(layout(plan.a, p.a, p.batch));
  FORESHARD_TRY(layout(plan.b, p.b, p.batch));
  return layout(plan.d, p.d, p.batch);
}

class LtGemm final : public Gemm {
 public:
  LtGemm(cublasLtHandle_t handle, Bytes workspace) : handle_(handle), workspace_(workspace) {}
  ~LtGemm() override {
    plans_.clear();
    cublasLtDestroy(handle_);
  }

  Result<void> run(const Arguments& args, Workspace& workspace) override {
    const Result<GemmShape> gemm = gemm_of(args);
    FORESHARD_TRY(gemm);
    const GemmShape& p = *gemm;
    if (p.m == 0 || p.n == 0 || p.batch == 0) return {};
    Result<Plan*> plan = plan_of(p, args);
    FORESHARD_TRY(plan);
    Result<void*> scratch = workspace.reserve((*plan)->workspace);
    FORESHARD_TRY(scratch);
    FORESHARD_TRY(point((*plan)->operation, p));
    const float alpha = static_cast<float>(args.kernel.alpha);
    const float beta = args.kernel.accumulate ? 1.0F : 0.0F;
    const double wide_alpha = args.kernel.alpha;
    const double wide_beta = args.kernel.accumulate ? 1.0 : 0.0;
    const bool wide = p.d.dtype == DType::float64;
    return cublas_status(
        cublasLtMatmul(handle_, (*plan)->operation, wide ? static_cast<const void*>(&wide_alpha) : &alpha, p.a.data,
                       (*plan)->a, p.b.data, (*plan)->b, wide ? static_cast<const void*>(&wide_beta) : &beta, p.d.data,
                       (*plan)->d, p.d.data, (*plan)->d, &(*plan)->algorithm, *scratch, (*plan)->workspace,
                       args.stream),
        "cublasLtMatmul");
  }

 private:
  Result<Plan*> plan_of(const GemmShape& p, const Arguments& args) {
    std::unique_ptr<Plan>& slot = plans_[key_of(p, args)];
    if (slot) [[likely]]
      return slot.get();
    auto plan = std::make_unique<Plan>();
    FORESHARD_TRY(describe(*plan, p, args));
    FORESHARD_TRY(choose(*plan, p));
    slot = std::move(plan);
    return slot.get();
  }

  Result<void> choose(Plan& plan, const GemmShape& p) const {
    cublasLtMatmulPreference_t preference = nullptr;
    FORESHARD_TRY(cublas_status(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate"));
    const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, cublasStatus_t (*)(cublasLtMatmulPreference_t)> owner(
        preference, cublasLtMatmulPreferenceDestroy);
    const auto put = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      return cublas_status(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
                           "cublasLtMatmulPreferenceSetAttribute");
    };
    FORESHARD_TRY(put(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::size_t>(workspace_)));
    const std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;  // and none
    FORESHARD_TRY(put(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions));
    const auto alignment = [](const Matrix& m) { return static_cast<std::uint32_t>(m.alignment()); };
    FORESHARD_TRY(put(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(p.a)));
    FORESHARD_TRY(put(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(p.b)));
    FORESHARD_TRY(put(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(p.d)));
    FORESHARD_TRY(put(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(p.d)));
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    FORESHARD_TRY(cublas_status(cublasLtMatmulAlgoGetHeuristic(handle_, plan.operation, plan.a, plan.b, plan.d, plan.d,
                                                               preference, 1, &result, &found),
                                "cublasLtMatmulAlgoGetHeuristic"));
    if (found == 0) return device_failure("cuBLASLt has no kernel for a GEMM of these dtypes and layouts");
    plan.algorithm = result.algo;
    plan.workspace = result.workspaceSize;
    return {};
  }

  cublasLtHandle_t handle_;
  Bytes workspace_;
  std::unordered_map<Key, std::unique_ptr<Plan>, KeyHash> plans_;
};

}  // namespace

Result<std::unique_ptr<Gemm>> Gemm::create(Bytes workspace) {
  cublasLtHandle_t handle = nullptr;
  FORESHARD_TRY(cublas_status(cublasLtCreate(&handle), "cublasLtCreate"));
  return std::make_unique<LtGemm>(handle, workspace);
}

}  // namespace foreshard::gpu

#include "traces/pytorch/trace_collective.hpp"

#include <array>
#include <limits>

#include "core/kernel/kernel_name.hpp"

namespace foreshard::traces {

namespace {

struct ScalarType {
  std::string_view name;
  Bytes size;
  std::optional<DType> dtype = std::nullopt;
};

// c10/core/ScalarType.h, AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS: names as toString() gives them.
constexpr std::array kScalarTypes{ScalarType{"BFloat16", 2, DType::bfloat16},
                                  ScalarType{"Float", 4, DType::float32},
                                  ScalarType{"Half", 2, DType::float16},
                                  ScalarType{"Double", 8, DType::float64},
                                  ScalarType{"Long", 8, DType::int64},
                                  ScalarType{"Int", 4, DType::int32},
                                  ScalarType{"Short", 2},
                                  ScalarType{"Char", 1},
                                  ScalarType{"Byte", 1, DType::uint8},
                                  ScalarType{"Bool", 1, DType::bool8},
                                  ScalarType{"Float8_e5m2", 1},
                                  ScalarType{"Float8_e4m3fn", 1},
                                  ScalarType{"ComplexFloat", 8},
                                  ScalarType{"ComplexDouble", 16}};

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

std::optional<CollectiveKind> collective_kind(std::string_view name, std::string_view kernel) {
  // torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp: _allgather_base, allgather, allgather_into_tensor_coalesced,
  // _reduce_scatter_base, reduce_scatter, reduce_scatter_tensor_coalesced, allreduce, allreduce_coalesced, …
  if (!name.empty()) {
    if (has(name, "allgather") || has(name, "all_gather")) return CollectiveKind::all_gather;
    if (has(name, "reduce_scatter")) return CollectiveKind::reduce_scatter;
    if (has(name, "allreduce") || has(name, "all_reduce") || name == "barrier") return CollectiveKind::all_reduce;
    return std::nullopt;
  }
  if (!is_nccl_kernel(kernel)) return std::nullopt;
  if (has(kernel, "AllGather")) return CollectiveKind::all_gather;
  if (has(kernel, "ReduceScatter")) return CollectiveKind::reduce_scatter;
  if (has(kernel, "AllReduce")) return CollectiveKind::all_reduce;
  return std::nullopt;
}

Transport transport_of_kernel(std::string_view kernel) {
  return kernel.starts_with("ncclSym") ? Transport::symmetric : Transport::nccl;
}

Bytes collective_bytes(CollectiveKind kind, const CollectiveArgs& args) {
  const auto elements = kind == CollectiveKind::all_gather ? args.out_elements : args.in_elements;
  if (!elements) return 0;
  for (const ScalarType& type : kScalarTypes)
    if (type.name == args.dtype)
      return *elements > std::numeric_limits<Bytes>::max() / type.size ? 0 : *elements * type.size;
  return 0;
}

std::optional<DType> collective_dtype(const CollectiveArgs& args) {
  for (const ScalarType& type : kScalarTypes)
    if (type.name == args.dtype) return type.dtype;
  return std::nullopt;
}

}  // namespace foreshard::traces

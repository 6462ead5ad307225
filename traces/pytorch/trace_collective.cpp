#include "traces/pytorch/trace_collective.hpp"

#include <algorithm>
#include <array>
#include <charconv>
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

Bytes saturating_sum(Bytes a, Bytes b) {
  return a > std::numeric_limits<Bytes>::max() - b ? std::numeric_limits<Bytes>::max() : a + b;
}

/// 0 where the type is unknown.
Bytes bytes_of(std::uint64_t elements, std::string_view dtype) {
  for (const ScalarType& type : kScalarTypes)
    if (type.name == dtype) return elements > std::numeric_limits<Bytes>::max() / type.size ? 0 : elements * type.size;
  return 0;
}

std::vector<Bytes> listed(std::string_view text, std::string_view dtype) {
  std::vector<Bytes> out = listed_numbers(text);
  for (Bytes& size : out) size = bytes_of(size, dtype);
  return out;
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

std::vector<std::uint64_t> listed_numbers(std::string_view text) {
  std::vector<std::uint64_t> out;
  const char* at = text.data();
  const char* end = at + text.size();
  while (at < end) {
    std::uint64_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error == std::errc()) out.push_back(number);
    at = error == std::errc() ? next : at + 1;
  }
  return out;
}

std::optional<CollectiveKind> collective_kind(std::string_view name, std::string_view kernel) {
  // torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp: _allgather_base, allgather, allgather_into_tensor_coalesced,
  // _reduce_scatter_base, reduce_scatter, reduce_scatter_tensor_coalesced, allreduce, allreduce_coalesced, all_to_all,
  // all_to_allv, broadcast, _broadcast_oop, reduce, _reduce_oop, send, recv, …
  if (!name.empty()) {
    if (has(name, "allgather") || has(name, "all_gather")) return CollectiveKind::all_gather;
    if (has(name, "reduce_scatter")) return CollectiveKind::reduce_scatter;
    if (has(name, "allreduce") || has(name, "all_reduce") || name == "barrier") return CollectiveKind::all_reduce;
    if (has(name, "all_to_all") || has(name, "alltoall")) return CollectiveKind::all_to_all;
    if (has(name, "broadcast")) return CollectiveKind::broadcast;
    if (name == "reduce" || name == "_reduce_oop") return CollectiveKind::reduce;
    if (name == "send" || name == "recv") return CollectiveKind::send_recv;
    return std::nullopt;
  }
  if (!is_nccl_kernel(kernel)) return std::nullopt;
  if (has(kernel, "AllGather")) return CollectiveKind::all_gather;
  if (has(kernel, "ReduceScatter")) return CollectiveKind::reduce_scatter;
  if (has(kernel, "AllReduce")) return CollectiveKind::all_reduce;
  if (has(kernel, "SendRecv")) return CollectiveKind::send_recv;
  if (has(kernel, "Broadcast")) return CollectiveKind::broadcast;
  if (has(kernel, "_Reduce_")) return CollectiveKind::reduce;
  return std::nullopt;
}

Transport transport_of_kernel(std::string_view kernel) {
  return kernel.starts_with("ncclSym") ? Transport::symmetric : Transport::nccl;
}

Bytes collective_bytes(CollectiveKind kind, const CollectiveArgs& args) {
  if (kind == CollectiveKind::all_gather) return bytes_of(args.out_elements.value_or(0), args.dtype);
  if (kind != CollectiveKind::all_to_all) return bytes_of(args.in_elements.value_or(0), args.dtype);
  return bytes_of(std::max(args.in_elements.value_or(0), args.out_elements.value_or(0)), args.dtype);
}

std::optional<SplitSizes> split_sizes(const CollectiveArgs& args) {
  SplitSizes out{listed(args.in_split, args.dtype), listed(args.out_split, args.dtype)};
  if (args.group_size < 2 || out.sent.size() != args.group_size || out.received.size() != args.group_size)
    return std::nullopt;
  return out;
}

Moved moved_by(const SplitSizes& sizes, std::size_t own) {
  Bytes sent = 0;
  Bytes received = 0;
  std::uint64_t peers = 0;
  for (std::size_t i = 0; i < sizes.sent.size(); ++i) {
    if (i == own) continue;
    sent = saturating_sum(sent, sizes.sent[i]);
    received = saturating_sum(received, sizes.received[i]);
    peers += sizes.sent[i] > 0 || sizes.received[i] > 0 ? 1 : 0;
  }
  const Bytes most = std::max(sent, received);
  const Bytes kept = std::max(sizes.sent[own], sizes.received[own]);
  if (peers < 2 && kept == 0) return {CollectiveKind::send_recv, most};
  const std::size_t others = sizes.sent.size() - 1;
  return {CollectiveKind::all_to_all, saturating_sum(most, most / others)};
}

std::optional<DType> collective_dtype(const CollectiveArgs& args) {
  for (const ScalarType& type : kScalarTypes)
    if (type.name == args.dtype) return type.dtype;
  return std::nullopt;
}

}  // namespace foreshard::traces

#include "traces/capture/section_role.hpp"

#include <algorithm>
#include <cstddef>

#include "core/kernel/kernel_name.hpp"

namespace foreshard::traces {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_copy(const SectionOp& op) {
  return op.name.starts_with("Memcpy");
}

bool is_collective(const SectionOp& op) {
  return op.kind == DeviceOpRecord::Kind::collective || is_nccl_kernel(op.name) || is_peer_copy(op.name);
}

// Elementwise copies and casts of one tensor: at::native::direct_copy_kernel_cuda and the reduced-precision
// copies beside it (aten/src/ATen/native/cuda/Copy.cu).
bool is_elementwise_copy(std::string_view name) {
  return contains(name, "copy_kernel_cuda");
}

/// at::native::CatArrayBatchedCopy, _contig, _aligned16_contig, … (aten/src/ATen/native/cuda/Shape.cu).
bool is_cat(std::string_view name) {
  return contains(name, "CatArrayBatchedCopy");
}

bool is_add(std::string_view name) {
  return contains(name, "CUDAFunctor_add") || contains(name, "AddFunctor");
}

std::vector<SectionRole> all_gather_roles(std::span<const SectionOp> ops, bool casts_shards) {
  std::vector<SectionRole> roles;
  std::size_t foreach_before = 0;
  bool any_cast = false;
  for (const SectionOp& op : ops) {
    if (is_collective(op)) break;
    if (!is_foreach_kernel(op.name)) continue;
    ++foreach_before;
    any_cast |= contains(op.name, "CopyFunctor");  // ForeachBinaryOpList.cu: _foreach_copy_ between dtypes
  }
  // Names of other versions: cast and copy-in take equally many launches, the casts first (2.3).
  const std::size_t casts = casts_shards && !any_cast && foreach_before % 2 == 0 ? foreach_before / 2 : 0;
  std::size_t foreach_seen = 0;
  bool gathered = false;
  for (const SectionOp& op : ops) {
    SectionRole role = SectionRole::other;
    if (is_collective(op)) {
      role = SectionRole::collective;
      gathered = true;
    } else if (gathered) {
      role = SectionRole::other;
    } else if (is_copy(op)) {
      role = copy_kind(op.name) == CopyKind::host_to_device ? SectionRole::offload_copy : SectionRole::copy_in;
    } else if (is_foreach_kernel(op.name)) {
      const bool cast = any_cast ? contains(op.name, "CopyFunctor") : foreach_seen < casts;
      role = cast ? SectionRole::cast : SectionRole::copy_in;
      ++foreach_seen;
    } else if (is_elementwise_copy(op.name)) {
      role = SectionRole::cast;  // the slow path casts one parameter at a time
    }
    roles.push_back(role);
  }
  return roles;
}

std::vector<SectionRole> copy_out_roles(std::span<const SectionOp> ops) {
  const bool splits =
      std::any_of(ops.begin(), ops.end(), [](const SectionOp& op) { return contains(op.name, "split_with_sizes"); });
  std::vector<SectionRole> roles;
  for (const SectionOp& op : ops) {
    SectionRole role = SectionRole::other;
    if (contains(op.name, "split_with_sizes")) {
      role = SectionRole::split;
    } else if (is_cat(op.name)) {
      role = SectionRole::cat;
    } else if (is_copy(op) && copy_kind(op.name) == CopyKind::host_to_device) {
      role = splits ? SectionRole::metadata_copy : SectionRole::offload_copy;
    } else if (!splits && is_copy(op)) {
      role = SectionRole::split;  // a group of one rank copies its shard (2.7)
    } else if (!splits && is_elementwise_copy(op.name)) {
      role = SectionRole::cast;
    }
    roles.push_back(role);
  }
  return roles;
}

bool is_all_reduce(const SectionOp& op) {
  return is_collective(op) && contains(op.name, "AllReduce");
}

std::vector<SectionRole> reduce_roles(std::span<const SectionOp> ops) {
  const bool scatters =
      std::any_of(ops.begin(), ops.end(), [](const SectionOp& op) { return is_collective(op) && !is_all_reduce(op); });
  std::vector<SectionRole> roles;
  bool joined = false;   // in the reduce-scatter's input
  bool reduced = false;  // over one rank by a copy
  for (const SectionOp& op : ops) {
    SectionRole role = SectionRole::other;
    if (is_collective(op)) {
      role = is_all_reduce(op) ? SectionRole::all_reduce : SectionRole::collective;
      reduced = true;
    } else if (is_copy(op)) {
      const CopyKind kind = copy_kind(op.name);
      if (kind == CopyKind::host_to_device) role = SectionRole::metadata_copy;
      if (kind == CopyKind::device_to_host) role = SectionRole::offload_copy;
      if (kind == CopyKind::device_to_device && joined && !scatters && !reduced) {
        role = SectionRole::copy_reduced;
        reduced = true;
      }
    } else if (contains(op.name, "chunk_cat")) {
      role = SectionRole::chunk_cat;
      joined = true;
    } else if (is_cat(op.name)) {
      role = SectionRole::cat;
    } else if (is_elementwise_copy(op.name)) {
      role = reduced ? SectionRole::cast_back : SectionRole::gradient_cast;
    } else if (reduced && is_add(op.name)) {
      role = SectionRole::gradient_add;
    } else if (joined && !scatters && !reduced) {
      role = SectionRole::copy_reduced;  // input / gradient_divide_factor
    }
    roles.push_back(role);
  }
  return roles;
}

SectionRole gradient_role(const SectionOp& op) {
  if (is_copy(op)) return SectionRole::clone;
  if (is_add(op.name)) return SectionRole::gradient_add;
  if (is_elementwise_copy(op.name)) return SectionRole::gradient_cast;
  return SectionRole::other;
}

}  // namespace

std::vector<SectionRole> section_roles(Section section, std::span<const SectionOp> ops, bool casts_shards) {
  switch (section) {
    case Section::all_gather:
      return all_gather_roles(ops, casts_shards);
    case Section::copy_out:
      return copy_out_roles(ops);
    case Section::reduce:
      return reduce_roles(ops);
    case Section::optimizer:
    case Section::zero_grad:
      return std::vector<SectionRole>(ops.size(), SectionRole::other);
    case Section::accumulate:
    case Section::reshard:
    case Section::float8_scales:
      break;
  }
  std::vector<SectionRole> roles;
  for (const SectionOp& op : ops) roles.push_back(gradient_role(op));
  return roles;
}

}  // namespace foreshard::traces

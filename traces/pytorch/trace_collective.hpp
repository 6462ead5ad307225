// Recognises collectives among the GPU work of a trace. Private to the trace reader.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/quantity.hpp"
#include "core/device/device.hpp"
#include "traces/pytorch/kineto_event.hpp"

namespace foreshard::traces {

/// From the `Collective name` where there is one, else from an NCCL kernel's name. An all-to-all's kernel is that of
/// sends and receives. None for gathers to one rank and scatters from one.
[[nodiscard]] std::optional<CollectiveKind> collective_kind(std::string_view collective_name, std::string_view kernel);

/// NCCL's kernels for symmetric windows are named ncclSym… (NCCL 2.27 and later, src/device/symmetric).
[[nodiscard]] Transport transport_of_kernel(std::string_view kernel);

/// Bytes as CollectiveWork::bytes has them, of an all-to-all's buffers the larger: elements × element size. 0 where the
/// trace does not say or the element type is unknown.
[[nodiscard]] Bytes collective_bytes(CollectiveKind kind, const CollectiveArgs& args);

/// Of the elements; none where the trace does not say, or core/base/dtype.hpp has no such type.
[[nodiscard]] std::optional<DType> collective_dtype(const CollectiveArgs& args);

/// Of "[0, 8388608]"; a list that PyTorch cut ("[0, 1, ..., 63]") lacks members.
[[nodiscard]] std::vector<std::uint64_t> listed_numbers(std::string_view text);

/// Bytes that this rank has for each rank, and gets from each, in an all-to-all of unequal parts.
struct SplitSizes {
  std::vector<Bytes> sent;
  std::vector<Bytes> received;
};

/// None where parts are equal, or the lists are cut short.
[[nodiscard]] std::optional<SplitSizes> split_sizes(const CollectiveArgs& args);

/// What member `own` of the group moves, as a kind that a device prices: sends and receives where it has one peer, else
/// the all-to-all of equal parts of which as much leaves the rank or comes to it.
struct Moved {
  CollectiveKind kind = CollectiveKind::all_to_all;
  Bytes bytes = 0;
};
[[nodiscard]] Moved moved_by(const SplitSizes& sizes, std::size_t own);

}  // namespace foreshard::traces

// Recognises collectives among the GPU work of a trace. Private to the trace reader.
#pragma once

#include <optional>
#include <string_view>

#include "core/base/dtype.hpp"
#include "core/base/quantity.hpp"
#include "core/device/device.hpp"
#include "traces/pytorch/kineto_event.hpp"

namespace foreshard::traces {

/// From the `Collective name` where there is one, else from an NCCL kernel's name; none for broadcasts,
/// point-to-point and other collectives that FSDP2 does not issue.
[[nodiscard]] std::optional<CollectiveKind> collective_kind(std::string_view collective_name, std::string_view kernel);

/// NCCL's kernels for symmetric windows are named ncclSym… (NCCL 2.27 and later, src/device/symmetric).
[[nodiscard]] Transport transport_of_kernel(std::string_view kernel);

/// Bytes of the whole buffer: elements × element size, of the output for an all-gather, of the input otherwise.
/// 0 where the trace does not say or the element type is unknown.
[[nodiscard]] Bytes collective_bytes(CollectiveKind kind, const CollectiveArgs& args);

/// Of the elements; none where the trace does not say, or core/base/dtype.hpp has no such type.
[[nodiscard]] std::optional<DType> collective_dtype(const CollectiveArgs& args);

}  // namespace foreshard::traces

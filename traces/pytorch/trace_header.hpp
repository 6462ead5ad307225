// The top-level members of a Kineto trace other than its events. Private to profiler_trace.cpp.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/error.hpp"
#include "traces/pytorch/json_pieces.hpp"
#include "traces/pytorch/profiler_trace.hpp"

namespace foreshard::traces {

struct TraceHeader {
  std::vector<TraceDevice> devices;
  std::optional<std::uint32_t> rank;
  std::optional<std::uint32_t> world_size;
  std::string nccl;
  std::int64_t base_ns = 0;  ///< baseTimeNanoseconds
  bool is_snapshot = false;  ///< it has `segments`: a memory snapshot as JSON
};

/// Takes one member into the header; members that are not needed are not parsed.
[[nodiscard]] Result<void> read_member(TraceHeader& header, const JsonPiece& piece, const std::string& file);

}  // namespace foreshard::traces

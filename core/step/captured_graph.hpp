// A CUDA graph of a step's passes: what was put on streams while it was captured, in the order of the calls.
//
// Who: OpEmitter fills it between begin_capture() and end_capture(), and issues it again at every launch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/quantity.hpp"
#include "core/device/collective.hpp"
#include "core/kernel/kernel.hpp"
#include "core/kernel/kernel_work.hpp"
#include "core/workload/workload.hpp"

namespace foreshard {

/// What a captured kernel computes, on addresses that every launch repeats.
struct CapturedKernel {
  Kernel kernel;
  std::vector<Address> addresses;  ///< by operand
};

struct GraphNode {
  enum class Kind : std::uint8_t {
    kernel = 0,
    copy = 1,
    collective = 2,
    record = 3,  ///< cudaEventRecord, an edge's begin
    wait = 4,    ///< cudaStreamWaitEvent, its end
    // No nodes of CUDA's: what the host did there while the graph was captured.
    hook = 5,           ///< where a phase begins or ends
    section_begin = 6,  ///< of one of FSDP2's sections, and …
    section_end = 7,    ///< … its end
  };
  Kind kind = Kind::kernel;
  StreamId stream = {};
  UnitId unit = {};
  KernelWork kernel = {};
  std::optional<CapturedKernel> computes = {};  ///< none: known by its cost alone
  CopyWork copy = {};
  CollectiveWork collective = {};
  CommunicatorId communicator = {};
  std::uint32_t event = 0;  ///< of the graph
  Hook hook = Hook::forward_begin;
  const SectionCost* section = nullptr;     ///< of the workload's, as is …
  const std::string* section_of = nullptr;  ///< … the unit's name
};

struct CapturedGraph {
  std::vector<GraphNode> nodes;
  std::uint32_t events = 0;

  /// Events of a capture, which mean nothing outside of it: their ids lie above all others.
  static constexpr std::uint32_t kFirstEvent = 1U << 31U;
  [[nodiscard]] static bool is_of_capture(EventId event) { return event.valid() && event.value >= kFirstEvent; }
};

}  // namespace foreshard

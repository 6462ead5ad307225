// The words under which the enumerations of a run are kept in files and shown to people.
// Beside core/workload/workload_names.hpp, whose rules hold here too: a word once written is never changed.
#pragma once

#include <optional>
#include <string_view>

#include "core/allocator/allocator_event.hpp"
#include "core/run/run.hpp"
#include "core/workload/workload_names.hpp"

namespace foreshard {

/// Stands for the category of blocks that are older than the recording, of which nothing says what they are for.
inline constexpr std::string_view kBeforeRecording = "before_recording";

/// None: of such a block.
[[nodiscard]] inline std::string_view category_name(std::optional<MemoryCategory> category) {
  return category ? name(*category) : kBeforeRecording;
}

template <>
struct EnumNames<RunKind> {
  static constexpr std::array<std::string_view, 3> kNames{"imported", "planned", "executed"};
};
static_assert(names_end_with(RunKind::executed));

template <>
struct EnumNames<Recording> {
  static constexpr std::array<std::string_view, 3> kNames{"run", "snapshot", "trace"};
};
static_assert(names_end_with(Recording::trace));

template <>
struct EnumNames<HostOpRecord::Kind> {
  static constexpr std::array<std::string_view, 4> kNames{"runtime", "cpu_op", "annotation", "work"};
};
static_assert(names_end_with(HostOpRecord::Kind::work));

template <>
struct EnumNames<DeviceOpRecord::Kind> {
  static constexpr std::array<std::string_view, 4> kNames{"kernel", "copy", "memset", "collective"};
};
static_assert(names_end_with(DeviceOpRecord::Kind::collective));

template <>
struct EnumNames<EventRecord::Kind> {
  static constexpr std::array<std::string_view, 3> kNames{"record", "wait", "host_wait"};
};
static_assert(names_end_with(EventRecord::Kind::host_wait));

template <>
struct EnumNames<ImportStat::Severity> {
  static constexpr std::array<std::string_view, 3> kNames{"info", "data_loss", "error"};
};
static_assert(names_end_with(ImportStat::Severity::error));

template <>
struct EnumNames<AllocatorAction> {
  static constexpr auto kNames = kAllocatorActionNames;
};
static_assert(names_end_with(AllocatorAction::unknown));

template <>
struct EnumNames<BlockState> {
  static constexpr std::array<std::string_view, 3> kNames{"live", "pending_free", "inactive"};
};
static_assert(names_end_with(BlockState::inactive));

}  // namespace foreshard

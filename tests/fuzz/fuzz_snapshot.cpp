// Any bytes, packed or not, pickle or JSON, give a snapshot or an Error; any snapshot's memory can be explained, or an
// Error says why not; and any snapshot settles settings that hold together, or says why it does not.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "core/base/check.hpp"
#include "core/explain/explanation.hpp"
#include "core/run/block_names.hpp"
#include "core/settings/settings_table.hpp"
#include "traces/import/snapshot_ranges.hpp"
#include "traces/infer/check_given.hpp"
#include "traces/pytorch/snapshot_file.hpp"

namespace {

using namespace foreshard;
using traces::CaptureEvent;

/// The events with the blocks that they name, as an import stores them.
Run as_run(const Snapshot& snapshot) {
  Run run;
  run.info.kind = RunKind::imported;
  run.settings.alloc_conf = snapshot.settings.alloc_conf;
  run.segments = snapshot.segments;
  run.stacks = snapshot.stacks;
  std::map<std::uint64_t, StreamId> streams;
  std::map<Address, BlockId> held;
  for (const AllocatorEvent& event : snapshot.events) {
    const auto stream = streams.emplace(event.stream, StreamId{static_cast<std::uint32_t>(streams.size())});
    if (stream.second) run.streams.push_back({stream.first->second, "stream", event.stream, 0});
    AllocatorRecord record{event.action, event.address, event.size, stream.first->second, {event.time_us},
                           {},           event.stack};
    if (event.action == AllocatorAction::alloc) {
      record.block = held[event.address] = BlockId{static_cast<std::uint32_t>(run.blocks.size())};
      BlockRecord block;
      block.address = event.address;
      block.requested = event.size;
      block.stream = record.stream;
      block.stack = record.stack;
      run.blocks.push_back(block);
    } else if (const auto at = held.find(event.address); at != held.end()) {
      record.block = at->second;
    }
    run.allocator.push_back(record);
  }
  return run;
}

void check_explanation(const Snapshot& snapshot) {
  const auto explanation = explain(as_run(snapshot), {.whole_run = true});
  if (!explanation) {
    FORESHARD_CHECK(!explanation.error().what.empty(), "an error says what is wrong");
    return;
  }
  Bytes streams = 0;
  for (const Holding& stream : explanation->reserved_peak.streams) streams += stream.reserved();
  FORESHARD_CHECK(streams == explanation->reserved_peak.at.parts.reserved(), "the parts leave no remainder");
}

void check_stacks(const Snapshot& snapshot) {
  const CallStacks& stacks = snapshot.stacks;
  for (std::size_t i = 0; i < stacks.stacks().size(); ++i) {
    FORESHARD_CHECK(stacks.stacks()[i].frame.value < stacks.frames().size(), "a stack's frame is there");
    FORESHARD_CHECK(!stacks.stacks()[i].caller.valid() || stacks.stacks()[i].caller.value < i, "callers come first");
  }
  const Run run = as_run(snapshot);
  const BlockNames names(run);
  for (const BlockRecord& block : run.blocks) {
    FORESHARD_CHECK(!block.stack.valid() || block.stack.value < stacks.stacks().size(), "a block's stack is there");
    FORESHARD_CHECK(!names.title(block).empty(), "every block has a title");
    FORESHARD_CHECK(names.whole_frame(block.stack).size() <= 8300, "names are bounded");
  }
}

void check_inference(const Snapshot& snapshot) {
  const std::vector<CaptureEvent> events =
      traces::capture_events(snapshot.events, traces::snapshot_origin_us(snapshot));
  const std::vector<traces::Range> ranges = traces::snapshot_ranges(snapshot);
  const traces::Inference inference = traces::infer({snapshot, events, ranges});
  if (!inference.why_not.empty()) return;
  FORESHARD_CHECK(!inference.units.empty() && inference.units.front().name.empty(), "the root comes first");
  for (const Unit& unit : inference.units)
    for (const Parameter& parameter : unit.parameters)
      FORESHARD_CHECK(!parameter.shape.empty() && parameter.numel() > 0, "parameters have elements");
  const auto about = traces::completed({}, inference, "", "input");
  if (!about) return;
  for (const Unit& unit : about->units)  // bytes that are not UTF-8 can make two names one
    if (std::any_of(unit.name.begin(), unit.name.end(), [](char c) { return static_cast<signed char>(c) < 0; })) return;
  FORESHARD_CHECK(traces::parse_about(traces::about_json(*about), "input").has_value(), "what is written can be read");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto source =
      foreshard::traces::ByteSource::from_memory("input", std::string(reinterpret_cast<const char*>(data), size));
  if (!source) return 0;
  const auto file = foreshard::traces::read_snapshot(*source, {.device = std::nullopt, .limit = 16 * foreshard::kMiB});
  if (!file) {
    FORESHARD_CHECK(!file.error().what.empty(), "an error says what is wrong");
    return 0;
  }
  for (const auto& segment : file->snapshot.segments)
    FORESHARD_CHECK(segment.device == file->snapshot.device, "only the chosen device's segments are kept");
  check_explanation(file->snapshot);
  check_stacks(file->snapshot);
  check_inference(file->snapshot);
  return 0;
}

// Any bytes, packed or not, pickle or JSON, give a snapshot or an Error; and any snapshot's memory can be explained,
// or an Error says why not.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "core/base/check.hpp"
#include "core/explain/explanation.hpp"
#include "traces/pytorch/snapshot_file.hpp"

namespace {

using namespace foreshard;

/// The events with the blocks that they name, as an import stores them.
Run as_run(const Snapshot& snapshot) {
  Run run;
  run.info.kind = RunKind::imported;
  run.settings.alloc_conf = snapshot.settings.alloc_conf;
  run.segments = snapshot.segments;
  std::map<std::uint64_t, StreamId> streams;
  std::map<Address, BlockId> held;
  for (const AllocatorEvent& event : snapshot.events) {
    const auto stream = streams.emplace(event.stream, StreamId{static_cast<std::uint32_t>(streams.size())});
    if (stream.second) run.streams.push_back({stream.first->second, "stream", event.stream, 0});
    AllocatorRecord record{event.action, event.address, event.size, stream.first->second, {event.time_us}, {}};
    if (event.action == AllocatorAction::alloc) {
      record.block = held[event.address] = BlockId{static_cast<std::uint32_t>(run.blocks.size())};
      BlockRecord block;
      block.address = event.address;
      block.requested = event.size;
      block.stream = record.stream;
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
  return 0;
}

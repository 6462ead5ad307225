#include "traces/pytorch/snapshot_stacks.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace foreshard::traces {
namespace {

using Severity = ImportStat::Severity;

// PyTorch 2.11, torch/csrc/profiler/python/combined_traceback.cpp, py_symbolize; the others are added by
// torch/cuda/memory.py, _augment_memory_snapshot_stack_traces, for code that torch.fx generated.
enum FrameKey : std::size_t { kFile, kLine, kFunction };
constexpr std::array<std::string_view, 6> kFrameKeys{"filename",   "line",         "name",
                                                     "fx_node_op", "fx_node_name", "fx_original_trace"};

}  // namespace

StackReader::StackReader(const PlainDocument& document, StatList& stats)
    : document_(document), stats_(stats), record_(document, kFrameKeys) {}

std::string_view StackReader::bounded(std::string_view text) {
  if (text.size() <= kMaxText) return text;
  stats_.add("frame_name_cut", Severity::info, "names in call stacks are longer than 4096 bytes and were cut");
  std::size_t end = kMaxText;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // not within a character
  return text.substr(0, end);
}

FrameId StackReader::frame(PlainValue value) {
  if (value.kind() != PlainKind::dict) return {};
  const std::size_t place = value.index();
  if (place >= frames_.size()) frames_.resize(std::max(place + 1, 2 * frames_.size()));
  if (!frames_[place]) frames_[place] = read_frame(value);
  return *frames_[place];
}

FrameId StackReader::read_frame(PlainValue value) {
  if (!record_.read(value)) return {};
  const auto file = record_.at(kFile), function = record_.at(kFunction);
  if (!file || file->kind() != PlainKind::string || !function || function->kind() != PlainKind::string) return {};
  // Lines that the symbolizer does not know may be beyond any file's (pytorch#115234).
  const auto given = record_.at(kLine) ? document_.uint64(*record_.at(kLine)) : std::nullopt;
  const bool known = given && *given <= static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max());
  const std::uint32_t line = known ? static_cast<std::uint32_t>(*given) : 0;
  const auto [place, is_new] = texts_.try_emplace({file->index(), function->index(), line});
  if (is_new)
    place->second = stacks_.frame(bounded(*document_.string(*file)), line, bounded(*document_.string(*function)));
  return place->second;
}

StackId StackReader::read_list(std::span<const PlainValue> frames) {
  if (frames.size() > kMaxFrames) {
    stats_.add("stack_cut", Severity::info, "call stacks are deeper than 1024 frames; the innermost are kept");
    frames = frames.first(kMaxFrames);
  }
  listed_ += frames.size();
  if (listed_ > kMaxListed || stacks_.stacks().size() + frames.size() > kMaxStacks) {
    stats_.add("stacks_dropped", Severity::data_loss, "call stacks are left out: there are too many different ones");
    return {};
  }
  StackId stack;
  for (std::size_t i = frames.size(); i-- > 0;) {
    const FrameId id = frame(frames[i]);
    if (id.valid())
      stack = stacks_.stack(id, stack);
    else
      stats_.add("odd_frame", Severity::info, "frames of call stacks have no filename or name and were left out");
  }
  return stack;
}

StackId StackReader::read(PlainValue frames) {
  const std::span<const PlainValue> items = document_.items(frames);
  if (items.empty()) return {};
  any_ = true;
  const auto [place, is_new] = lists_.try_emplace(frames.index());
  if (is_new) place->second = read_list(items);
  return place->second;
}

}  // namespace foreshard::traces

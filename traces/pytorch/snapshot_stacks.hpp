// The call stacks of a memory snapshot (`frames`), interned. Private to the snapshot's readers.
//
// A pickle shares a stack among all entries that have it, and a frame among all stacks: each is read once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/allocator/call_stacks.hpp"
#include "traces/pytorch/plain_data.hpp"
#include "traces/pytorch/record_reader.hpp"
#include "traces/pytorch/stat_list.hpp"

namespace foreshard::traces {

class StackReader {
 public:
  /// Bounds of what is kept; what lies beyond is left out and counted. Deep recursion keeps its innermost frames.
  static constexpr std::size_t kMaxFrames = 1024;                  ///< of a stack
  static constexpr std::size_t kMaxText = 4096;                    ///< bytes of a file's or a function's name
  static constexpr std::size_t kMaxStacks = 1U << 24;              ///< nodes of the tree
  static constexpr std::size_t kMaxListed = std::size_t{1} << 26;  ///< frames of all lists that are read

  StackReader(const PlainDocument& document, StatList& stats);

  /// The stack that a list of frames is; invalid for an empty one and for what is no list. A frame that is no dict with
  /// a text `filename` and `name` is left out and counted.
  [[nodiscard]] StackId read(PlainValue frames);

  [[nodiscard]] bool any() const { return any_; }
  [[nodiscard]] CallStacks take() { return std::move(stacks_); }

 private:
  [[nodiscard]] StackId read_list(std::span<const PlainValue> frames);
  [[nodiscard]] FrameId frame(PlainValue value);
  [[nodiscard]] FrameId read_frame(PlainValue value);
  [[nodiscard]] std::string_view bounded(std::string_view text);

  const PlainDocument& document_;
  StatList& stats_;
  RecordReader record_;
  CallStacks stacks_;
  std::unordered_map<std::size_t, StackId> lists_;  // by the list's place in the document; lookup only
  std::vector<std::optional<FrameId>> frames_;      // by the dict's; none: not read yet
  /// Files that were written anew have each frame as often as it was recorded: told by their texts' places.
  struct FrameText {
    std::size_t file, function;  // of the document's strings
    std::uint32_t line;
    bool operator==(const FrameText&) const = default;
  };
  struct FrameTextHash {
    std::size_t operator()(const FrameText& text) const {
      return (text.file * 0x9e3779b97f4a7c15U + text.function) * 0x9e3779b97f4a7c15U + text.line;
    }
  };
  std::unordered_map<FrameText, FrameId, FrameTextHash> texts_;  // lookup only
  std::size_t listed_ = 0;
  bool any_ = false;
};

}  // namespace foreshard::traces

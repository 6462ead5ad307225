#include "traces/export/snapshot_pickle.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/allocator/config.hpp"
#include "core/run/block_names.hpp"
#include "core/run/run_names.hpp"
#include "traces/export/pickle_writer.hpp"
#include "traces/export/tracks.hpp"

namespace foreshard::traces {
namespace {

/// memory_viz fails on a file with categories of which none is "unknown" (MemoryViz.js, annotate_snapshot).
constexpr std::string_view kUnknown = "unknown";

std::string_view category_text(MemoryCategory category) {
  return category == MemoryCategory::other ? kUnknown : name(category);
}

class Writer {
 public:
  Writer(const Run& run, const AllocatorConfig& config, ByteSink& sink) : run_(run), config_(config), out_(sink) {
    for (const StreamRecord& stream : run.streams)
      handles_[stream.id] = stream.handle != 0 ? stream.handle : stream.id.value;
    handles_[kComputeStream] = 0;  // allocations of the compute stream are the default stream's
    for (const SnapshotSegment& segment : run.segments) device_ = std::max(device_, segment.device);
    has_unknown_ = std::any_of(run.blocks.begin(), run.blocks.end(),
                               [](const BlockRecord& block) { return block.category == MemoryCategory::other; });
  }

  void write() {
    out_.begin_dict();
    out_.key("segments");
    segments();
    out_.key("device_traces");
    out_.begin_list();
    for (std::uint32_t device = 0; device <= device_; ++device) {
      out_.item();
      out_.begin_list();
      if (device == device_)
        for (const AllocatorRecord& record : run_.allocator) event(record);
      out_.end_list();
    }
    out_.end_list();
    out_.key("allocator_settings");
    settings();
    out_.key("external_annotations");
    annotations();
    out_.end_dict();
    out_.end();
  }

 private:
  void field(std::string_view key, std::uint64_t value) {
    out_.key(key);
    out_.count(value);
  }
  void field(std::string_view key, std::string_view value) {
    out_.key(key);
    out_.text(value);
  }

  // PyTorch 2.11, torch/csrc/cuda/Module.cpp, segmentInfoToDict.
  void segments() {
    out_.begin_list();
    for (const SnapshotSegment& segment : run_.segments) {
      out_.item();
      out_.begin_dict();
      field("device", segment.device);
      field("address", segment.address);
      field("total_size", segment.total_size);
      field("allocated_size", segment.allocated_size);
      field("active_size", segment.active_size);
      field("requested_size", segment.requested_size);
      field("stream", segment.stream);
      field("segment_type", segment.small_pool ? "small" : "large");
      out_.key("segment_pool_id");
      out_.count(segment.pool_id.first);
      out_.count(segment.pool_id.second);
      out_.tuple2();
      out_.key("is_expandable");
      out_.boolean(segment.is_expandable);
      out_.key("frames");
      empty_list();
      out_.key("blocks");
      blocks(segment);
      out_.end_dict();
    }
    out_.end_list();
  }

  void blocks(const SnapshotSegment& segment) {
    // The C++ spelling; the documentation's is active_awaiting_free.
    constexpr std::array<std::string_view, 3> kStates{"active_allocated", "active_pending_free", "inactive"};
    out_.begin_list();
    for (const SnapshotBlock& block : segment.blocks) {
      out_.item();
      out_.begin_dict();
      field("address", block.address);
      field("size", block.size);
      field("requested_size", block.requested_size);
      field("state", kStates[static_cast<std::size_t>(block.state)]);
      out_.key("frames");
      frames(nullptr, block.stack);
      out_.end_dict();
    }
    out_.end_list();
  }

  void empty_list() {
    out_.begin_list();
    out_.end_list();
  }

  void event(const AllocatorRecord& record) {
    out_.item();
    out_.begin_dict();
    field("action", name(record.action));
    field(record.action == AllocatorAction::oom ? "device_free" : "addr", record.address);
    field("size", record.size);
    const auto handle = handles_.find(record.stream);
    field("stream", handle == handles_.end() ? 0 : handle->second);
    out_.key("time_us");
    out_.integer(record.time.count / 1000);
    const bool alloc = record.action == AllocatorAction::alloc && record.block.value < run_.blocks.size();
    if (alloc) {
      field("category", category_text(run_.blocks[record.block.value].category));
    } else if (!has_unknown_) {
      field("category", kUnknown);
      has_unknown_ = true;
    }
    out_.key("frames");
    frames(alloc ? &run_.blocks[record.block.value] : nullptr, record.stack);
    out_.end_dict();
  }

  /// Innermost first, as PyTorch's: what the store knows of the block (what allocated it, what it belongs to, its
  /// category), then the recorded frames. One list for all that share it.
  void frames(const BlockRecord* block, StackId stack) {
    if (block == nullptr && !stack.valid()) return empty_list();
    const std::string op = block == nullptr ? "" : names_.op(*block);
    const std::string of = block == nullptr ? "" : names_.owner(*block);
    const std::tuple key{op, of, block == nullptr ? std::string_view() : name(block->category), stack};
    if (const auto found = frames_.find(key); found != frames_.end()) return out_.fetch(found->second);
    out_.begin_list();
    const std::uint32_t memo = out_.remember();
    if (!op.empty()) frame("op", 0, op);
    if (!of.empty()) frame("of", 0, of);
    if (block != nullptr) frame("category", 0, name(block->category));
    for (const FrameId id : run_.stacks.frames_of(stack)) {
      const StackFrame& of_stack = run_.stacks.frames()[id.value];
      frame(of_stack.file, of_stack.line, of_stack.function);
    }
    out_.end_list();
    frames_.emplace(key, memo);
  }

  void frame(std::string_view file, std::uint32_t line, std::string_view function) {
    out_.item();
    const std::tuple key{std::string(file), line, std::string(function)};
    if (const auto found = frame_memos_.find(key); found != frame_memos_.end()) return out_.fetch(found->second);
    out_.begin_dict();
    field("filename", file);
    field("line", std::uint64_t{line});
    field("name", function);
    out_.end_dict();
    frame_memos_.emplace(key, out_.remember());
  }

  void settings() {
    out_.begin_dict();
    field("PYTORCH_CUDA_ALLOC_CONF", run_.settings.alloc_conf);
    out_.key("max_split_size");
    const bool unlimited = config_.max_split_size == std::numeric_limits<Bytes>::max();
    out_.integer(unlimited ? -1 : static_cast<std::int64_t>(config_.max_split_size));
    out_.key("garbage_collection_threshold");
    out_.real(config_.garbage_collection_threshold);
    out_.key("expandable_segments");
    out_.boolean(config_.expandable_segments);
    out_.end_dict();
  }

  struct Mark {
    Nanoseconds time;
    std::int64_t order = 0;  // of marks at one time: inner ends, outer ends, outer starts, inner starts
    bool start = true;
    LabelId label;
  };

  /// Ranges on the allocator's clock: the recording's, or the host's of a run with one clock.
  std::vector<Mark> marks() const {
    std::vector<Mark> out;
    const auto add = [&out](LabelId label, Nanoseconds start, Nanoseconds end, std::size_t index) {
      const auto order = static_cast<std::int64_t>(index);
      out.push_back({start, order + 1, true, label});
      out.push_back({end, start == end ? order + 1 : -order - 1, false, label});
    };
    for (std::size_t i = 0; i < run_.annotations.size(); ++i)
      add(run_.annotations[i].label, run_.annotations[i].start, run_.annotations[i].end, i);
    for (std::size_t i = 0; i < run_.host_ops.size() && run_.info.kind != RunKind::imported; ++i)
      if (const HostOpRecord& op = run_.host_ops[i]; op.kind == HostOpRecord::Kind::annotation)
        add(op.label, op.start, op.end, i);
    std::stable_sort(out.begin(), out.end(), [](const Mark& a, const Mark& b) {
      return std::tie(a.time, a.order) < std::tie(b.time, b.order);
    });
    return out;
  }

  void annotations() {
    out_.begin_list();
    for (const Mark& mark : marks()) {
      out_.item();
      out_.begin_dict();
      field("stage", mark.start ? "START" : "END");
      field("name", run_.labels.text(mark.label));
      field("device", device_);
      out_.key("time_us");
      out_.integer(mark.time.count / 1000);
      out_.end_dict();
    }
    out_.end_list();
  }

  const Run& run_;
  const AllocatorConfig& config_;
  PickleWriter out_;
  std::map<StreamId, std::uint64_t> handles_;
  BlockNames names_{run_};
  std::map<std::tuple<std::string, std::string, std::string_view, StackId>, std::uint32_t> frames_;
  std::map<std::tuple<std::string, std::uint32_t, std::string>, std::uint32_t> frame_memos_;
  std::uint32_t device_ = 0;
  bool has_unknown_ = false;
};

}  // namespace

Result<void> write_snapshot(const Run& run, ByteSink& sink) {
  if (run.allocator.empty() && run.segments.empty())
    return fail(ErrorKind::input, "the run holds no allocator events", run.info.name, "import it with --snapshot");
  const auto config = parse_alloc_conf(run.settings.alloc_conf, run.settings.pytorch);
  FORESHARD_TRY(config);
  Writer(run, *config, sink).write();
  return {};
}

}  // namespace foreshard::traces

// Small random runs for the tests of exports, graphs and comparisons: valid in every reference, otherwise odd.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "core/run/run.hpp"

namespace foreshard::test {

class RandomRun {
 public:
  explicit RandomRun(std::uint64_t seed, RunKind kind) : random_(seed), kind_(kind) {}

  Run make() {
    Run run;
    run.info.kind = kind_;
    run.info.name = "random \"run\" é\n";
    run.info.gpu = "NVIDIA H200";
    run.info.nccl = "2.28.9";
    run.info.sm_count = 132;
    run.settings.gpus = 4;
    run.units = {{"", {}}, {"layers.0", {}}, {"layers.1", {}}};
    add_streams(run);
    add_lanes(run);
    add_memory(run);
    return run;
  }

 private:
  [[nodiscard]] bool imported() const { return kind_ == RunKind::imported; }
  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  Nanoseconds length() { return {static_cast<std::int64_t>(below(20'000))}; }

  void add_streams(Run& run) {
    const char* names[] = {"compute", "all-gather copy-in", "all-gather", "reduce-scatter"};
    const std::uint64_t handles[] = {7, 20, 24, 28};
    for (std::uint32_t i = 0; i < 4; ++i)
      run.streams.push_back({StreamId{i}, imported() ? "stream " + std::to_string(handles[i]) : names[i],
                             imported() ? handles[i] : 0, 0});
    if (imported()) run.streams.push_back({StreamId{4}, "allocations 1", 0x7f0011223344, 0});
  }

  LabelId label(Run& run, const char* text) { return run.labels.intern(text); }

  void add_op(Run& run, Nanoseconds now, std::uint64_t correlation) {
    const char* kernels[] = {"gemm", "void copy<float>(\"x\", \\)", "split_with_sizes", "ядро\t1"};
    DeviceOpRecord op;
    op.stream = StreamId{static_cast<std::uint32_t>(below(3) == 0 ? below(4) : 0)};
    op.issue = now;
    op.start = std::max(now + Nanoseconds{1} + length(), free_[op.stream.value]);
    op.end = op.start + length();
    free_[op.stream.value] = op.end;
    op.correlation = correlation;
    if (below(2) == 0) op.unit = UnitId{static_cast<std::uint32_t>(below(run.units.size()))};
    switch (op.stream.value >= 2 ? 3 : below(3)) {
      case 0:
        op.label = label(run, kernels[below(4)]);
        op.grid = {static_cast<std::uint32_t>(1 + below(100)), 1, 2};
        op.block = {128, 1, 1};
        break;
      case 1:
        op.kind = DeviceOpRecord::Kind::copy;
        op.label = label(run, "Memcpy HtoD (Pageable -> Device)");
        op.bytes = below(1 << 20);
        break;
      case 2:
        op.kind = DeviceOpRecord::Kind::memset;
        op.kernel_class = KernelClass::memset;
        op.label = label(run, "Memset (Device)");
        break;
      default:
        collective(run, op);
        break;
    }
    run.device_ops.push_back(op);
  }

  void collective(Run& run, DeviceOpRecord& op) {
    op.kind = DeviceOpRecord::Kind::collective;
    constexpr std::array kOthers{CollectiveKind::reduce_scatter, CollectiveKind::all_to_all, CollectiveKind::broadcast,
                                 CollectiveKind::reduce, CollectiveKind::send_recv};
    op.collective = op.stream.value == 2 ? CollectiveKind::all_gather : kOthers[below(kOthers.size())];
    op.bytes = 4 * (1 + below(1 << 20));
    op.communicator = CommunicatorId{0};
    const bool copies = op.stream.value == 2 && below(4) == 0;
    op.transport = copies ? Transport::copy_engine : below(4) == 0 ? Transport::symmetric : Transport::nccl;
    op.label = label(run, copies                                 ? "Memcpy PtoP (Device -> Device)"
                          : op.transport == Transport::symmetric ? "ncclSymkDevKernel_x"
                                                                 : "ncclDevKernel_y");
  }

  void add_events(Run& run, Nanoseconds now) {
    if (below(3) != 0) return;
    const auto stream = [this] { return StreamId{static_cast<std::uint32_t>(below(4))}; };
    const EventId event{events_++};
    run.events.push_back({EventRecord::Kind::record, event, stream(), now});
    if (below(3) == 0) return;
    run.events.push_back({EventRecord::Kind::wait, event, stream(), now});
  }

  void add_lanes(Run& run) {
    const Recording recording = imported() ? Recording::trace : Recording::run;
    free_.assign(4, {});
    Nanoseconds now{5'000};
    for (std::int32_t index = 0; index < 3; ++index) {
      StepRecord step;
      step.recording = recording;
      step.index = index;
      step.start = now;
      for (const char* name : {"forward", "backward", "optimizer"}) {
        const Nanoseconds begin = now;
        for (std::uint64_t unit = 0, units = 1 + below(4); unit < units; ++unit) add_section(run, now);
        run.phases.push_back({index, recording, name, begin, now});
      }
      step.end = now;
      for (const DeviceOpRecord& op : run.device_ops)
        if (op.stream == kComputeStream) step.device_end = std::max(step.device_end.value_or(op.end), op.end);
      run.steps.push_back(step);
      now += Nanoseconds{1};
    }
  }

  /// An FSDP range with calls inside, on either thread.
  void add_section(Run& run, Nanoseconds& now) {
    const char* sections[] = {"FSDP::all_gather_copy_out (layers.0)", "FSDP::post_forward (layers.0)",
                              "FSDP::post_backward_accumulate (layers.1)", "FSDP::all_gather"};
    HostOpRecord range;
    range.kind = HostOpRecord::Kind::annotation;
    range.thread = sections_++ == 0 ? 0 : static_cast<std::uint32_t>(below(2));
    range.label = label(run, sections[below(4)]);
    range.start = now;
    const std::size_t at = run.host_ops.size();
    run.host_ops.push_back(range);
    for (std::uint64_t i = 0, calls = below(6); i < calls; ++i) {
      now += Nanoseconds{1} + length();
      const std::uint64_t correlation = run.device_ops.size() + 1;
      if (imported()) {
        HostOpRecord call;
        call.thread = range.thread;
        call.label = label(run, below(5) == 0 ? "cuLaunchKernelEx" : "cudaLaunchKernel");
        call.start = now;
        call.end = now + length();
        call.correlation = correlation;
        run.host_ops.push_back(call);
        add_op(run, call.start, correlation);
        now = call.end;
      } else {
        add_op(run, now, correlation);
      }
      now += Nanoseconds{1};
      add_events(run, now);
    }
    now += Nanoseconds{2};
    run.host_ops[at].end = now;
    now += length();
  }

  void add_memory(Run& run) {
    const Recording recording = imported() ? Recording::snapshot : Recording::run;
    constexpr Bytes kSegment = 64 * kMiB;
    constexpr Address kBase = 0x7f0000000000;
    Nanoseconds now{};
    const auto tick = [&] { now += Nanoseconds{1000 * static_cast<std::int64_t>(below(50))}; };
    run.allocator.push_back({AllocatorAction::segment_alloc, kBase, kSegment, kComputeStream, now, {}});
    std::vector<BlockId> live;
    Address next = kBase;
    for (int i = 0; i < 60; ++i) {
      tick();
      if (!live.empty() && below(2) == 0) {
        const std::size_t at = below(live.size());
        const BlockId id = live[at];
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
        const BlockRecord& block = run.blocks[id.value];
        run.allocator.push_back(
            {AllocatorAction::free_requested, block.address, block.requested, block.stream, now, id});
        if (below(2) == 0) tick();
        run.allocator.push_back(
            {AllocatorAction::free_completed, block.address, block.requested, block.stream, now, id});
        continue;
      }
      BlockRecord block;
      block.requested = 1 + below(500'000);
      block.size = round_up(block.requested, 512);
      block.address = next;
      next += block.size;
      block.stream = kComputeStream;
      block.category = static_cast<MemoryCategory>(below(14));
      if (below(2) == 0) block.unit = UnitId{static_cast<std::uint32_t>(below(run.units.size()))};
      if (below(2) == 0) block.label = label(run, "aten::mm");
      live.push_back(BlockId{static_cast<std::uint32_t>(run.blocks.size())});
      run.allocator.push_back({AllocatorAction::alloc, block.address, block.requested, block.stream, now, live.back()});
      run.blocks.push_back(block);
    }
    finish_memory(run, live, kBase, kSegment, next);
    if (!imported()) return;
    StepRecord step;
    step.recording = recording;
    step.start = Nanoseconds{100'000};
    step.end = now + Nanoseconds{1000};
    run.steps.push_back(step);
    run.annotations.push_back({label(run, "FSDP::all_gather"), Nanoseconds{100'000}, Nanoseconds{250'000}});
    run.annotations.push_back({label(run, "inner"), Nanoseconds{150'000}, Nanoseconds{250'000}});
  }

  static void finish_memory(Run& run, const std::vector<BlockId>& live, Address base, Bytes size, Address end) {
    SnapshotSegment segment;
    segment.address = base;
    segment.total_size = size;
    Address at = base;
    std::vector<const BlockRecord*> blocks;
    for (const BlockId id : live) blocks.push_back(&run.blocks[id.value]);
    std::sort(blocks.begin(), blocks.end(), [](const auto* a, const auto* b) { return a->address < b->address; });
    for (const BlockRecord* block : blocks) {
      if (block->address > at) segment.blocks.push_back({at, block->address - at, 0, BlockState::inactive});
      segment.blocks.push_back({block->address, block->size, block->requested, BlockState::live});
      at = block->address + block->size;
      segment.allocated_size += block->size;
      segment.active_size += block->size;
      segment.requested_size += block->requested;
    }
    static_cast<void>(end);
    segment.blocks.push_back({at, base + size - at, 0, BlockState::inactive});
    run.segments.push_back(segment);
  }

  std::mt19937_64 random_;
  RunKind kind_;
  std::vector<Nanoseconds> free_;
  std::uint32_t events_ = 0;
  std::uint32_t sections_ = 0;
};

}  // namespace foreshard::test

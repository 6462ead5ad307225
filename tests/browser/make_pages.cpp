// Writes pages of made-up runs for the browser tests: `make_pages million|hostile OUT.html`, `make_pages store RUN.db
// OUT.html`. The first is a run of a million block events, the second has names that try to break out of the page.

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <string>

#include "traces/store/store.hpp"
#include "viz/pack/page.hpp"

using namespace foreshard;

namespace {

/// A small linear congruential generator: the same run everywhere.
class Numbers {
 public:
  std::uint64_t below(std::uint64_t limit) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state_ >> 33) % limit;
  }

 private:
  std::uint64_t state_ = 147168;
};

constexpr Bytes kSegment = 64 * kMiB;
constexpr std::size_t kSlots = 1500;

Run empty_run(const std::string& name) {
  Run run;
  run.info.name = name;
  run.info.torch = "2.11.0";
  run.info.gpu = "made up";
  for (const char* stream : {"compute", "all-gather copy-in", "all-gather", "reduce-scatter"})
    run.streams.push_back({StreamId{static_cast<std::uint32_t>(run.streams.size())}, stream, 0, 0});
  run.units.push_back({"", {}});
  for (int layer = 0; layer < 48; ++layer) run.units.push_back({"layers." + std::to_string(layer), {}});
  return run;
}

void reserve(Run& run, std::size_t slots) {
  for (std::size_t i = 0; i < slots; ++i)
    run.allocator.push_back(
        {AllocatorAction::segment_alloc, (i + 16) * kSegment, kSegment, StreamId{0}, Nanoseconds{0}, {}});
}

void make_block(Run& run, std::size_t slot, Bytes size, std::uint32_t kind, std::uint32_t unit, LabelId label,
                std::int64_t time) {
  BlockRecord block;
  block.address = (slot + 16) * kSegment;
  block.requested = size - size / 100;
  block.size = size;
  block.stream = StreamId{kind % 4};
  block.category = static_cast<MemoryCategory>(kind % 14);
  block.unit = UnitId{unit};
  block.label = label;
  block.step = 0;
  const BlockId id{static_cast<std::uint32_t>(run.blocks.size())};
  run.blocks.push_back(block);
  run.allocator.push_back(
      {AllocatorAction::alloc, block.address, block.requested, block.stream, Nanoseconds{time}, id});
}

/// Allocations and frees at random slots, one in eight freed late; ops on four streams beside them.
Run million() {
  Run run = empty_run("a million block events");
  Numbers numbers;
  reserve(run, kSlots);
  std::vector<std::uint32_t> held(kSlots, UINT32_MAX);
  const LabelId label = run.labels.intern("FSDP::all_gather (layers.7)");
  struct Late {
    std::uint32_t block;
    std::int64_t time;
  };
  std::vector<Late> late;
  // A training step asks for the same sizes again and again.
  std::array<Bytes, 64> sizes{};
  for (Bytes& size : sizes) size = (1 + numbers.below(kSegment / 512)) * 512;
  std::int64_t time = 0;
  while (run.allocator.size() < 1'000'000) {
    time += static_cast<std::int64_t>(numbers.below(4000));
    // Most work is done in a tenth of the slots, as in a training step.
    const std::size_t slot = numbers.below(numbers.below(8) == 0 ? kSlots : kSlots / 10);
    const auto free = [&](AllocatorAction action, std::uint32_t block, std::int64_t at) {
      const BlockRecord& of = run.blocks[block];
      run.allocator.push_back({action, of.address, of.requested, of.stream, Nanoseconds{at}, BlockId{block}});
    };
    if (!late.empty() && late.front().time <= time) {
      free(AllocatorAction::free_completed, late.front().block, time);
      held[run.blocks[late.front().block].address / kSegment - 16] = UINT32_MAX;
      late.erase(late.begin());
      continue;
    }
    if (held[slot] == UINT32_MAX) {
      held[slot] = static_cast<std::uint32_t>(run.blocks.size());
      make_block(run, slot, sizes[numbers.below(sizes.size())], static_cast<std::uint32_t>(numbers.below(14)),
                 static_cast<std::uint32_t>(numbers.below(49)), label, time);
    } else if (run.allocator.back().block.value != held[slot] &&
               std::none_of(late.begin(), late.end(), [&](const Late& of) { return of.block == held[slot]; })) {
      free(AllocatorAction::free_requested, held[slot], time);
      if (numbers.below(8) == 0) {
        late.push_back({held[slot], time + 400'000});
      } else {
        free(AllocatorAction::free_completed, held[slot], time);
        held[slot] = UINT32_MAX;
      }
    }
  }
  const LabelId gemm = run.labels.intern("gemm_bf16"), gather = run.labels.intern("all_gather");
  std::array<std::int64_t, 4> busy{};
  for (std::uint32_t i = 0; i < 200'000; ++i) {
    const std::uint32_t stream = i % 4;
    DeviceOpRecord op;
    op.stream = StreamId{stream};
    op.kind = stream >= 2 ? DeviceOpRecord::Kind::collective : DeviceOpRecord::Kind::kernel;
    op.kernel_class = numbers.below(2) == 0 ? KernelClass::gemm : KernelClass::memory_bound;
    op.collective = stream == 3 ? CollectiveKind::reduce_scatter : CollectiveKind::all_gather;
    op.label = stream >= 2 ? gather : gemm;
    op.unit = UnitId{static_cast<std::uint32_t>(numbers.below(49))};
    op.bytes = kMiB;
    op.start =
        Nanoseconds{busy[stream] + static_cast<std::int64_t>(numbers.below(static_cast<std::uint64_t>(time / 50'000)))};
    op.issue = op.start - Nanoseconds{5000};
    op.end =
        op.start + Nanoseconds{static_cast<std::int64_t>(1 + numbers.below(static_cast<std::uint64_t>(time / 70'000)))};
    busy[stream] = op.end.count;
    run.device_ops.push_back(op);
  }
  run.steps.push_back({Recording::run, 0, Nanoseconds{0}, Nanoseconds{time}, {}, {}, 0, 0});
  run.phases.push_back({0, Recording::run, "forward", Nanoseconds{0}, Nanoseconds{time / 3}});
  run.phases.push_back({0, Recording::run, "backward", Nanoseconds{time / 3}, Nanoseconds{time}});
  return run;
}

/// Names that would end a script, open an element, or hide what follows them.
Run hostile() {
  const std::string name = "</script><script>window.broken=1</script><img src=x onerror=\"window.broken=1\">";
  Run run = empty_run(name);
  run.units[1].name = "<!--<script>" + name;
  run.streams[1].name = "\"><b onmouseover=window.broken=1>" + name;
  run.info.gpu = "\xff\xfe not UTF-8 \x01\x1b[31m";
  run.info.warnings.push_back(name);
  reserve(run, 4);
  const LabelId label = run.labels.intern(name + std::string("\0\x01\xe2\x80\xae", 5));
  for (std::uint32_t i = 0; i < 4; ++i) make_block(run, i, kMiB, 2, 1, label, 1000 * i);
  run.allocator.push_back(
      {AllocatorAction::free_requested, run.blocks[0].address, kMiB, StreamId{2}, Nanoseconds{5000}, BlockId{0}});
  DeviceOpRecord op;
  op.stream = StreamId{1};
  op.label = label;
  op.unit = UnitId{1};
  op.end = Nanoseconds{4000};
  run.device_ops.push_back(op);
  run.phases.push_back({0, Recording::run, name, Nanoseconds{0}, Nanoseconds{4000}});
  run.steps.push_back({Recording::run, 0, Nanoseconds{0}, Nanoseconds{6000}, {}, {}, 0, 0});
  return run;
}

int write(const Run& run, const std::string& path) {
  auto pack = viz::Pack::make(run, {});
  if (!pack) {
    std::fprintf(stderr, "%s\n", pack.error().text().c_str());
    return 1;
  }
  std::vector<viz::Pack> packs;
  packs.push_back(std::move(*pack));
  std::ofstream file(path, std::ios::binary);
  file << viz::page_file({run.info.name, "auto", {{"", run.info.name}}, ""}, packs, {});
  return file.good() ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  const std::string what = count > 1 ? words[1] : "";
  if (count == 3 && what == "million") return write(million(), words[2]);
  if (count == 3 && what == "hostile") return write(hostile(), words[2]);
  if (count == 4 && what == "store") {
    const auto run = traces::read_run(words[2]);
    if (run) return write(*run, words[3]);
    std::fprintf(stderr, "%s\n", run.error().text().c_str());
    return 1;
  }
  std::fprintf(stderr, "usage: make_pages million|hostile OUT.html, make_pages store RUN.db OUT.html\n");
  return 2;
}

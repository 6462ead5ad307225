#include "sim/machine/address_space.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <utility>
#include <vector>

#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

SimMemoryOptions plenty() {
  return {.total = 143155 * kMiB, .capacity = 140000 * kMiB};
}

struct Request {
  bool is_free = false;
  Address address = 0;
  Bytes size = 0;
};

std::vector<Request> read_requests(const std::string& name) {
  std::ifstream file("tests/sim/data/cuda_malloc_" + name + ".txt");
  REQUIRE(file.good());
  std::vector<Request> requests;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string what;
    Request request;
    words >> what >> std::hex >> request.address >> std::dec >> request.size;
    request.is_free = what == "free";
    requests.push_back(request);
  }
  return requests;
}

TEST_CASE("the address model gives every address of the recorded random programs") {
  for (const char* name : {"plain", "split200"}) {
    const std::vector<Request> requests = read_requests(name);
    SimMemoryOptions options = plenty();
    options.first_arena = requests.front().address - 8 * kMiB;
    SimMemory memory(options);
    std::size_t allocations = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      INFO(name << " request " << i);
      if (requests[i].is_free) {
        memory.free(requests[i].address);
        continue;
      }
      ++allocations;
      REQUIRE(memory.allocate(MemoryKind::device, requests[i].size) == requests[i].address);
    }
    CHECK(allocations > 100);
  }
}

TEST_CASE("a recording is followed as long as the sizes agree, then the model goes on without overlap") {
  // This program ran kernels, whose loading took addresses too: the model alone does not give its addresses.
  const std::vector<Request> requests = read_requests("record");
  SimMemoryOptions options = plenty();
  for (const Request& request : requests) {
    if (request.is_free) continue;
    options.recorded_addresses.push_back(request.address);
    options.recorded_sizes.push_back(request.size);
  }
  for (std::size_t change_at : {std::size_t{1}, std::size_t{17}, requests.size()}) {
    SimMemory memory(options);
    std::map<Address, Bytes> live;
    bool changed = false;
    for (std::size_t i = 0; i < requests.size() && (!changed || i < change_at + 40); ++i) {
      INFO("change at " << change_at << ", request " << i);
      if (requests[i].is_free) {
        if (live.erase(requests[i].address) == 1) memory.free(requests[i].address);
        continue;
      }
      changed = changed || i >= change_at;
      const Bytes size = requests[i].size + (changed ? 2 * kMiB : 0);
      const std::optional<Address> address = memory.allocate(MemoryKind::device, size);
      REQUIRE(address);
      if (!changed) REQUIRE(*address == requests[i].address);
      const auto next = live.lower_bound(*address);
      REQUIRE((next == live.end() || *address + size <= next->first));
      REQUIRE((next == live.begin() || std::prev(next)->first + std::prev(next)->second <= *address));
      live.emplace(*address, size);
    }
  }
}

TEST_CASE("an allocation of a multiple of 512 MiB is aligned to 512 MiB") {
  SimMemory memory(plenty());
  const Address small = *memory.allocate(MemoryKind::device, 20 * kMiB);
  const Address huge = *memory.allocate(MemoryKind::device, 512 * kMiB);
  CHECK(huge % (512 * kMiB) == 0);
  CHECK(huge + 512 * kMiB <= small);
}

TEST_CASE("memory is counted, and a failure changes nothing") {
  SimMemory memory({.total = 100 * kMiB, .capacity = 80 * kMiB});
  const Address first = *memory.allocate(MemoryKind::device, 50 * kMiB);
  CHECK_FALSE(memory.allocate(MemoryKind::device, 32 * kMiB));
  CHECK(memory.info().free == 30 * kMiB);
  CHECK(memory.info().total == 100 * kMiB);
  const Address range = *memory.reserve(1000 * kMiB);
  CHECK(memory.map(range, 20 * kMiB));
  CHECK_FALSE(memory.map(range + 20 * kMiB, 20 * kMiB));
  CHECK(memory.info().free == 10 * kMiB);
  memory.free(first);
  CHECK(memory.map(range + 20 * kMiB, 20 * kMiB));
  memory.unmap(range + 2 * kMiB, 36 * kMiB);  // across both mappings
  CHECK(memory.used() == 4 * kMiB);
  memory.unmap(range, 2 * kMiB);
  memory.unmap(range + 38 * kMiB, 2 * kMiB);
  memory.release(range);
  CHECK(memory.used() == 0);
}

TEST_CASE("virtual ranges ascend, spaced by their size rounded up to 32 MiB") {
  SimMemory memory(plenty());
  const Bytes range = (143155 + 143155 / 8) * kMiB;
  const Address first = *memory.reserve(range);
  CHECK(*memory.reserve(range) - first == 161056 * kMiB);
}

TEST_CASE("each kind of memory has addresses of its own") {
  SimMemory memory(plenty());
  const Address device = *memory.allocate(MemoryKind::device, 2 * kMiB);
  const Address symmetric = *memory.allocate(MemoryKind::symmetric, 2 * kMiB);
  const Address registered = *memory.allocate(MemoryKind::registered, 2 * kMiB);
  CHECK(device - registered > (Address{1} << 40));
  CHECK(registered - symmetric > (Address{1} << 40));
  memory.free(symmetric);
  CHECK(memory.used() == 4 * kMiB);
}

/// The rule of sim/machine/arenas.hpp, with everything looked through at each request.
class PlainArenas {
 public:
  explicit PlainArenas(Address first) : arenas_{{first, first + kArena}} { live_[first] = 8 * kMiB; }

  Address allocate(Bytes size) {
    std::optional<Address> address;
    for (auto arena = arenas_.rbegin(); arena != arenas_.rend() && !address; ++arena)
      address = smallest_gap(*arena, size);
    if (!address) address = new_arena(round_up(size, kArena), size % kHuge == 0);
    live_[*address] = size;
    return *address;
  }

  void free(Address address) {
    live_.erase(address);
    std::erase_if(arenas_, [&](const Extent& arena) {
      const auto next = live_.lower_bound(arena.first);
      return next == live_.end() || next->first >= arena.second;
    });
  }

 private:
  using Extent = std::pair<Address, Address>;
  static constexpr Bytes kArena = 32 * kMiB;
  static constexpr Bytes kHuge = 512 * kMiB;

  [[nodiscard]] std::optional<Address> smallest_gap(const Extent& arena, Bytes size) const {
    std::optional<Address> best;
    Bytes best_size = 0;
    Address from = arena.first;
    const auto look = [&](Address to) {
      if (to - from < size || (best && to - from >= best_size)) return;
      best = from;
      best_size = to - from;
    };
    for (auto at = live_.lower_bound(arena.first); at != live_.end() && at->first < arena.second; ++at) {
      look(at->first);
      from = at->first + at->second;
    }
    look(arena.second);
    return best;
  }

  Address new_arena(Bytes size, bool aligned) {
    std::vector<Extent> sorted = arenas_;
    std::sort(sorted.begin(), sorted.end());
    Address top = sorted.front().first;
    for (std::size_t i = 1; i < sorted.size(); ++i)
      if (sorted[i].first - sorted[i - 1].second > size + (aligned ? kHuge : 0)) top = sorted[i].first;
    const Address base = aligned ? (top - size) / kHuge * kHuge : top - size;
    arenas_.emplace_back(base, base + size);
    return base;
  }

  std::vector<Extent> arenas_;  // oldest first
  std::map<Address, Bytes> live_;
};

TEST_CASE("random requests get the addresses of the rule with everything looked through") {
  constexpr Bytes kSizes[] = {2, 20, 22, 30, 64, 100, 512, 1024};  // MiB
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    SimMemory memory(plenty());
    PlainArenas plain(plenty().first_arena);
    std::vector<Address> live;
    for (std::uint32_t i = 0; i < 600; ++i) {
      INFO("seed " << seed << ", request " << i);
      const bool shrinks = i % 200 >= 100;
      if (!live.empty() && random() % 100 < (shrinks ? 70 : 30)) {
        std::swap(live[random() % live.size()], live.back());
        memory.free(live.back());
        plain.free(live.back());
        live.pop_back();
        continue;
      }
      const Bytes size = kSizes[random() % std::size(kSizes)] * kMiB;
      live.push_back(plain.allocate(size));
      REQUIRE(memory.allocate(MemoryKind::device, size) == live.back());
    }
  }
}

}  // namespace
}  // namespace foreshard::sim

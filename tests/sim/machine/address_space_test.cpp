#include "sim/machine/address_space.hpp"

#include <fstream>
#include <sstream>

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

}  // namespace
}  // namespace foreshard::sim

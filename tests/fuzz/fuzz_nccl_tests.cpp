// Any text gives measurements or an Error, as nccl-tests' output, its JSON, a probe file or what its first bytes say.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.hpp"
#include "sim/calibrate/measurements.hpp"
#include "sim/calibrate/nccl_tests.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foreshard::sim;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto& read :
       {read_measurements(text, "all_gather.txt"), read_nccl_tests_text(text, "input", {}),
        read_nccl_tests_text(text, "input", {foreshard::Transport::nccl, foreshard::CollectiveKind::all_gather})}) {
    if (!read) {
      FORESHARD_CHECK(!read.error().what.empty(), "an error says what is wrong");
      continue;
    }
    for (const CollectiveSample& sample : read->collectives) {
      FORESHARD_CHECK(sample.ranks >= 2 && sample.ranks_per_node <= sample.ranks, "a collective has ranks");
      FORESHARD_CHECK(sample.bytes > 0 && sample.us > 0, "a collective has bytes and a time");
    }
  }
  return 0;
}

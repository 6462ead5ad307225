#include "accuracy/published_collectives.hpp"

#include <fmt/format.h>

#include "tests/sim/collectives/machine.hpp"

namespace foreshard::accuracy {
namespace {

sim::MachineProfile h100() {
  const Result<sim::MachineProfile> profile = sim::builtin_profile("h100");
  REQUIRE(profile);
  return *profile;
}

bool over(const CollectiveCheck& check, double bar) {
  return std::abs(check.error()) > bar;
}

std::string told(const CollectiveCheck& check) {
  return fmt::format("{} of {} ranks, {} bytes: {:.1f} us, measured {:.1f}", check.path, check.request.ranks,
                     check.request.bytes, check.predicted_us, check.measured_us);
}

TEST_CASE("every published row names its source and reads back") {
  CHECK(published_collectives().size() == 144);
  for (const PublishedCollective& row : published_collectives()) {
    CHECK_FALSE(row.source.empty());
    CHECK(row.us > 0);
    CHECK(row.request.bytes >= 1024);
  }
}

TEST_CASE("SimAI's table of 1 to 128 nodes above 16 MiB") {
  std::vector<CollectiveCheck> large;
  int missed = 0;
  for (const CollectiveCheck& check : check_published(h100(), "simai")) {
    if (check.request.bytes <= 16 * kMiB) continue;
    large.push_back(check);
    if (!over(check, 0.15)) continue;
    ++missed;
    // The table's own row of 2 nodes doubles its time from 32 to 64 MiB, and its 8 nodes start late: no formula that
    // is monotone in bytes and nodes meets these (docs/collectives.md lists them).
    INFO(told(check));
    const bool known = (check.request.ranks == 16 && check.request.bytes <= 128 * kMiB) ||
                       (check.request.ranks == 64 && check.request.bytes == 32 * kMiB);
    CHECK(known);
  }
  CHECK(large.size() == 80);
  CHECK(missed <= 4);
  CHECK(summarise(large).mean < 0.05);
}

TEST_CASE("8 x H100: NCCL's ring and symmetric kernels") {
  for (const CollectiveCheck& check : check_published(h100(), "megatron")) {
    INFO(told(check));
    // The two smallest of the ring are listed as misses: NCCL's own formula is 5 us above them.
    CHECK_FALSE(over(check, check.request.bytes > 16 * kMiB ? 0.10 : 0.30));
  }
  for (const CollectiveCheck& check : check_published(h100(), "low-contention")) {
    INFO(told(check));
    CHECK_FALSE(over(check, 0.05));
  }
}

TEST_CASE("all-reduces of 8 x H100 and of 4 to 8 H200") {
  for (const CollectiveCheck& check : check_published(h100(), "dgxc")) {
    INFO(told(check));
    CHECK_FALSE(over(check, check.request.bytes > 512 * kKiB ? 0.10 : 0.20));
  }
  const auto checks = check_published(sim::h200());
  CHECK(checks.size() == 14);
  for (const CollectiveCheck& check : checks) {
    INFO(told(check));
    CHECK_FALSE(over(check, 0.10));
  }
}

}  // namespace
}  // namespace foreshard::accuracy

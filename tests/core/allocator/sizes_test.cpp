// Rounding and segment sizes: the vectors of caching allocator 2.2 and 2.3.
#include "core/allocator/sizes.hpp"

#include "tests/catch.hpp"

namespace foreshard {
namespace {

AllocatorConfig divisions(std::string_view value) {
  return parse_alloc_conf("roundup_power2_divisions:" + std::string(value)).value();
}

using Table = std::array<std::uint32_t, 16>;

TEST_CASE("a request is rounded up to 512 bytes") {
  const AllocatorConfig config;
  CHECK(round_size(1, config) == 512);
  CHECK(round_size(512, config) == 512);
  CHECK(round_size(513, config) == 1024);
  CHECK(round_size(1048577, config) == 1049088);
}

TEST_CASE("roundup_power2_divisions rounds to steps between powers of two") {
  CHECK(round_size(1200, divisions("4")) == 1536);  // below 512·4 the plain rule holds
  CHECK(round_size(2049, divisions("4")) == 2560);
  CHECK(round_size(5000, divisions("4")) == 5120);
  CHECK(round_size(3000000, divisions("4")) == 3145728);
  CHECK(round_size(kGiB, divisions("4")) == kGiB);
  CHECK(round_size(kGiB + 1, divisions("2")) == 1610612736);
  CHECK(round_size(3000001, divisions("1")) == 3000320);  // 1 turns it off
  CHECK(round_up_power2_division(1200, 4) == 1280);
  CHECK(round_up_power2_division(3, 4) == 4);  // a step of 0
}

TEST_CASE("a list fills the table as PyTorch does") {
  CHECK(divisions("[256:1,512:2,1024:4,>:8]").roundup_power2_divisions ==
        Table{1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8});
  CHECK(divisions("[64:8,256:4]").roundup_power2_divisions == Table{8, 8, 8, 8, 8, 8, 8, 0, 4, 0, 0, 0, 0, 0, 0, 0});
  CHECK(round_size(100 * kMiB + 1, divisions("[64:8,256:4]")) == 104 * kMiB);
  CHECK(round_size(200 * kMiB + 1, divisions("[64:8,256:4]")) == 200 * kMiB + 512);
  CHECK(round_size(2 * 64 * kGiB - 1, divisions("4")) == 2 * 64 * kGiB);  // all above 32 GiB share the last entry
}

TEST_CASE("a segment's size follows the rounded size") {
  const AllocatorConfig config;
  CHECK(segment_size(512, config) == 2 * kMiB);
  CHECK(segment_size(kMiB, config) == 2 * kMiB);
  CHECK(segment_size(kMiB + 512, config) == 20 * kMiB);
  CHECK(segment_size(10 * kMiB - 512, config) == 20 * kMiB);
  CHECK(segment_size(round_size(10485759, config), config) == 10 * kMiB);
  CHECK(segment_size(10 * kMiB + 512, config) == 12 * kMiB);
  const AllocatorConfig larger = parse_alloc_conf("large_segment_size_mb:64").value();
  CHECK(segment_size(2 * kMiB, larger) == 64 * kMiB);
}

}  // namespace
}  // namespace foreshard

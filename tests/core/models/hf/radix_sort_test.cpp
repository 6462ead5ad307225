// Temporary storage of CUB's radix sorts as recorded on H200 (PyTorch 2.11).
#include "core/models/radix_sort.hpp"

#include "tests/catch.hpp"

namespace foreshard::model::testing {
namespace {

TEST_CASE("a radix sort's temporary storage is what recordings of experts have") {
  CHECK(radix_sort_workspace({.keys = 32768}) == 549375);              // 8 experts a token, sorted by expert
  CHECK(radix_sort_workspace({.keys = 24576}) == 416255);              // 6 a token
  CHECK(radix_sort_workspace({.keys = 32768, .bits = 13}) == 537087);  // rows of 4096 tokens, by row
  CHECK(RadixSort{.keys = 1, .bits = 16}.passes() == 2);
  CHECK(RadixSort{.keys = 1, .bits = 17}.passes() == 3);
}

}  // namespace
}  // namespace foreshard::model::testing

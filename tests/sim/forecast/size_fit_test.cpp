// Sizes at lengths that were not recorded.
#include "sim/forecast/size_fit.hpp"

#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::sim;

namespace {

using Kind = SizeFit::Kind;
constexpr MemoryCategory kUser = MemoryCategory::activations;

/// By slot: a weight, a line, a line with an offset, a parabola, what fits nothing.
std::vector<Bytes> sizes_of(std::uint64_t n) {
  return {4096, 6 * n, 24 + 10 * n, 2 * n * n + 5, n < 600 ? 100 : 7 * n / 3};
}

struct RecordedLengths {
  explicit RecordedLengths(const std::vector<std::uint32_t>& of) {
    for (const std::uint32_t length : of) sizes.push_back(sizes_of(length));
    for (std::size_t i = 0; i < of.size(); ++i) recorded.push_back({of[i], &sizes[i]});
  }
  std::vector<std::vector<Bytes>> sizes;
  std::vector<RecordedSizes> recorded;
};

}  // namespace

TEST_CASE("each request is held against every recorded length", "[forecast][size_fit]") {
  const RecordedLengths lengths({256, 500, 700, 1000});
  const SizeFit fit = fit_sizes(lengths.recorded, std::vector(5, kUser));
  CHECK(fit.kinds == std::vector{Kind::constant, Kind::linear, Kind::linear, Kind::quadratic, Kind::interpolated});
  const auto sizes = sizes_at(832, lengths.recorded, fit);
  const auto truth = sizes_of(832);
  for (std::size_t slot = 0; slot < 4; ++slot) CHECK(sizes[slot] == truth[slot]);
  CHECK(sizes[4] == Approx(truth[4]).epsilon(0.01));
  CHECK(sizes_at(2048, lengths.recorded, fit)[3] == sizes_of(2048)[3]);
  CHECK(sizes_at(1, lengths.recorded, fit)[4] >= 1);
}

TEST_CASE("two lengths make a line, and no parabola", "[forecast][size_fit]") {
  const RecordedLengths lengths({256, 512});
  const SizeFit fit = fit_sizes(lengths.recorded, std::vector(5, kUser));
  CHECK(fit.count(Kind::constant) == 2);
  CHECK(fit.count(Kind::quadratic) == 0);
  CHECK(sizes_at(1024, lengths.recorded, fit)[2] == sizes_of(1024)[2]);
}

TEST_CASE("of one length the user's own tensors are taken as proportional", "[forecast][size_fit]") {
  const std::vector<Bytes> sizes{512 * 100, 512 * 100, 777};
  const std::vector<RecordedSizes> recorded{{512, &sizes}};
  const SizeFit fit = fit_sizes(recorded, {kUser, MemoryCategory::gather_buffers, kUser});
  CHECK(fit.kinds == std::vector{Kind::inferred, Kind::constant, Kind::constant});
  CHECK(sizes_at(1024, recorded, fit) == std::vector<Bytes>{1024 * 100, 512 * 100, 777});
}

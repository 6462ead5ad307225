// GEMMs: the best of cuBLAS's tiles and splits, in waves over the SMs, against moving the matrices once.
#include <algorithm>
#include <cmath>

#include "sim/compute/parts.hpp"

namespace foreshard::sim::compute {
namespace {

constexpr double kStep = 64;       // elements of k in one step of a tile …
constexpr double kStepGrain = 16;  // … whose last is cut to a multiple of the instruction's

const ProductEngine& engine_of(const GemmSpec& spec, const KernelMath& math) {
  if (itemsize(math.dtype) >= 4) return spec.vector;
  return math.unaligned ? spec.tensor_unaligned : spec.tensor;
}

/// Grouped products (GroupMM.cu on sm90, PyTorch 2.11): tiles of 128 × 256, of which two below one another make a
/// cluster. PersistentTileSchedulerSm90Group rounds a product's tiles up to clusters and deals them out in advance to
/// as many blocks as there are SMs.
constexpr TileSpec::Shape kGroupedTile{128, 256};
constexpr double kGroupedCluster = 2;

/// What is computed of an extent that differs among products and has this mean: the last block is half full on average.
double in_blocks(std::uint64_t mean, double block) {
  return std::max(block, static_cast<double>(mean) + block / 2);
}

double rows_computed(const KernelMath& math) {
  if (math.ragged == RaggedExtent::m) return in_blocks(math.m, kGroupedCluster * kGroupedTile.rows);
  return static_cast<double>(math.m);
}

double depth_computed(const KernelMath& math) {
  if (math.ragged == RaggedExtent::k) return in_blocks(math.k, kStep);
  return static_cast<double>(math.k);
}

struct Best {
  double time = 0;
  double tiles = 0;
  double waves = 0;
};

class TileSearch {
 public:
  TileSearch(const MachineProfile& machine, const KernelMath& math)
      : engine_(engine_of(machine.compute.gemms, math)),
        tiles_(machine.compute.tiles),
        batch_(math.batch),
        ragged_(math.ragged),
        m_(rows_computed(math)),
        n_(static_cast<double>(math.n)),
        k_(depth_computed(math)),
        sms_(machine.sm_count),
        clock_(machine.peaks.clock_hz) {
    const bool vector = itemsize(math.dtype) >= 4;
    per_sm_ = (vector ? machine.peaks.vector_float32 : machine.peaks.matrix(math.dtype)) / sms_;
  }

  void consider(const TileSpec::Shape& tile) {
    // Of grouped products the rows are a mean, with the last block's: their tiles are one, too.
    const double down = ragged_ == RaggedExtent::m ? m_ / tile.rows : std::ceil(m_ / tile.rows);
    const double tiles = down * std::ceil(n_ / tile.columns) * batch_;
    const double inverse = engine_.half_intensity * (tile.rows + tile.columns) / (tile.rows * tile.columns);
    const double rate = per_sm_ * engine_.efficiency / (1 + std::pow(inverse, engine_.power));
    const double step = std::max(2 * tile.rows * tile.columns * kStep / rate, engine_.step_clocks / clock_);
    for (const double split : tiles_.splits) {
      if (split > 1 &&
          (ragged_ != RaggedExtent::none || tiles * split > 2 * sms_ || k_ < tiles_.least_split_depth * split))
        break;
      const double steps = std::ceil(std::ceil(k_ / split) / kStepGrain) * kStepGrain / kStep;
      const double waves = std::ceil(tiles * split / sms_);
      const double time =
          waves * (engine_.tile_clocks / clock_ + steps * step) + (split > 1 ? engine_.split_us * 1e-6 : 0);
      if (best_.time == 0 || time < best_.time) best_ = {time, tiles * split, waves};
    }
  }

  [[nodiscard]] const Best& best() const { return best_; }

 private:
  const ProductEngine& engine_;
  const TileSpec& tiles_;
  double batch_;
  RaggedExtent ragged_;
  double m_;
  double n_;
  double k_;
  double sms_;
  double clock_;
  double per_sm_ = 0;
  Best best_;
};

}  // namespace

Seconds gemm(const MachineProfile& machine, const KernelMath& math) {
  const GemmSpec& spec = machine.compute.gemms;
  if (math.m == 0 || math.n == 0 || math.k == 0 || math.batch == 0) return {spec.launch_us * 1e-6};
  const bool grouped = math.ragged != RaggedExtent::none;
  TileSearch search(machine, math);
  if (grouped) {
    search.consider(kGroupedTile);
  } else {
    for (const TileSpec::Shape& tile : machine.compute.tiles.shapes) {
      search.consider(tile);
      if (tile.rows != tile.columns) search.consider({tile.columns, tile.rows});
    }
  }
  const bool vector = itemsize(math.dtype) >= 4;
  const bool few_rows = vector && std::min(math.m, math.n) <= 64;
  const double memory =
      memory_time(machine, least_bytes(math), few_rows ? spec.few_rows_share : spec.memory_share, !vector);
  const double shortest = static_cast<double>(std::min({math.m, math.n, math.k}));
  const double compute = search.best().time * (vector ? 1 : at(spec.sustained, shortest));
  // (c^p + m^p)^(1/p), from the larger so that nothing overflows.
  const double larger = std::max(compute, memory);
  const double smaller = std::min(compute, memory);
  const double both = larger * std::pow(1 + std::pow(smaller / larger, spec.blend), 1 / spec.blend);
  const double time = spec.launch_us * 1e-6 + both;
  if (grouped) return {time, static_cast<double>(machine.sm_count), 1};  // one wave of blocks, whatever it moves
  return {time, search.best().tiles, search.best().waves, memory};
}

}  // namespace foreshard::sim::compute

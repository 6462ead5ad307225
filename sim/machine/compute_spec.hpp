// The section "compute" of a machine profile: how close single kernels come to the GPU's peaks.
//
// Who: sim/machine/read_compute.cpp reads it, sim/compute prices kernels with it. Plain data.
// Everything is a share of a peak of "/gpu" or a number of SM clocks, so that the section of one GPU carries over to
// another of similar design whose peaks differ (docs/compute.md has the model and where each number is from).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/kernel/kernel_enum_names.hpp"

namespace foreshard::sim {

/// A value at ascending places; between them linear, outside the nearest.
struct Curve {
  struct Point {
    double at = 0;
    double value = 0;
  };
  std::vector<Point> points;
};

/// The units that multiply matrices: tensor cores, tensor cores on unaligned operands, float32 lanes.
struct ProductEngine {
  double efficiency = 0;      ///< share of the peak that the largest tile comes near
  double half_intensity = 0;  ///< a·b/(a+b) of the tile a × b that reaches half of that
  double power = 1;           ///< how sharply smaller tiles fall off
  double tile_clocks = 0;     ///< of every tile, in addition to its multiplications: prologue and epilogue
  double step_clocks = 0;     ///< least time of 64 elements of k in one tile
  double split_us = 0;        ///< once, where k is split between blocks
};

struct GemmSpec {
  ProductEngine tensor;            ///< bfloat16, float16
  ProductEngine tensor_unaligned;  ///< the same with a leading dimension that is no multiple of 8 elements
  ProductEngine vector;            ///< float32: PyTorch's default allows no TF32
  double launch_us = 0;
  double memory_share = 0;    ///< of the HBM peak while reading and writing the matrices once
  double few_rows_share = 0;  ///< the same in float32 with at most 64 rows or columns
  double blend = 4;           ///< compute and memory overlap: (c^blend + m^blend)^(1/blend)
  Curve sustained;            ///< factor on compute time in a training step, by the shortest dimension
};

/// The tiles that a GEMM's kernel may have, and into how many parts k may be split.
struct TileSpec {
  struct Shape {
    double rows = 0;
    double columns = 0;
  };
  std::vector<Shape> shapes;  ///< each also turned round
  std::vector<double> splits;
  double least_split_depth = 0;  ///< elements of k that a split keeps
};

/// Where the model goes from one regime to another.
struct ComputeRules {
  double level_waves = 0;      ///< attention: with more waves the last one's idle SMs do not show
  double full_chunks = 0;      ///< multi-tensor: elements at which the blocks of a kernel are full
  double l2_fade = 0;          ///< bytes beyond what the L2 serves, over that, at which nothing is served by it
  double streaming_share = 0;  ///< a GEMM streams where its matrices' bytes take more of its time
  double far_octaves = 0;      ///< where the model counts as much as one measured shape at the same distance
};

struct AttentionSpec {
  double launch_us = 0;
  double row_clocks = 0;          ///< SM clocks of a query row, in addition to its multiplications …
  double row_element_clocks = 0;  ///< … and of each of its elements
  double causal_block = 0;        ///< the mask's diagonal is worked on in blocks of so many keys
  Curve efficiency;               ///< share of the peak by head dimension
  double sustained = 1;           ///< factor on all but the launch in a training step
};

struct AccessSpec {
  double launch_us = 0;
  double memory_share = 0;        ///< of the HBM peak
  double elements_per_clock = 0;  ///< and SM, at most
  double chunk_us = 0;            ///< multi-tensor: of one block's elements, for each byte an element moves
};

/// Isolated times of one family of kernels, by the bytes they move: all that a program calls by one name, that
/// walk their tensors in one way and have one dtype. Between its points a time follows the line through their
/// logarithms; smaller kernels cost the access's launch_us and their share of the rest, larger ones go at the largest's
/// rate.
struct KernelFamily {
  struct Point {
    double bytes = 0;
    double us = 0;
    double held = 0;      ///< time while ContentionSpec::held_sms SMs are held, over isolated time; 0: not measured
    double streamed = 0;  ///< the same while what holds them streams memory (streamed_bandwidth); not below `held`
  };
  std::string label;  ///< KernelWork::label's text: "aten::mul", "fsdp::chunk_cat"
  MemoryAccess access = MemoryAccess::contiguous;
  DType dtype = DType::bfloat16;
  std::vector<Point> points;  ///< bytes ascend
};

/// Measured times of GEMMs or attentions over what this section's model gives for them, by shape.
struct ShapeFactors {
  struct Point {
    double m = 0;
    double n = 0;
    double k = 0;
    double batch = 1;
    double factor = 1;
    double held = 0;  ///< as KernelFamily::Point's
    double streamed = 0;
  };
  KernelMath::Kind kind = KernelMath::Kind::gemm;
  DType dtype = DType::bfloat16;
  bool causal = false;
  std::vector<Point> points;
};

struct ComputeSpec {
  bool known = false;  ///< the profile has the section; without it "/rates" price kernels
  GemmSpec gemms;
  TileSpec tiles;
  ComputeRules rules;
  AttentionSpec attention_forward;
  AttentionSpec attention_backward;
  AttentionSpec attention_forward_float32;
  AttentionSpec attention_backward_float32;
  std::array<AccessSpec, kEnumSize<MemoryAccess>> memory{};  ///< by MemoryAccess
  double l2_rate = 0;                                        ///< of what is still in the L2, over the HBM peak
  double l2_share = 0;                 ///< of the L2's size that a kernel's bytes may have to be served by it
  std::vector<KernelFamily> families;  ///< measured; by label, access and dtype
  std::vector<ShapeFactors> shapes;    ///< measured; by kind, dtype and causal
};

}  // namespace foreshard::sim

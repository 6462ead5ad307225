// Measurements of one machine from any kind of file.
//
// The readers (nccl_tests.hpp, probe_file.hpp, topology.hpp; run stores through traces/) fill it, fit_machine.hpp makes
// a profile from it. Plain data. Times are microseconds as the files give them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/quantity.hpp"
#include "core/device/device.hpp"

namespace foreshard::sim {

/// One isolated collective.
struct CollectiveSample {
  CollectiveKind kind = CollectiveKind::all_gather;
  Transport transport = Transport::nccl;
  std::uint32_t ranks = 0;
  std::uint32_t ranks_per_node = 0;
  Bytes bytes = 0;  ///< whole buffer, nccl-tests' "size"
  double us = 0;
  bool upcasts = false;           ///< as CollectiveRequest::upcasts
  DType dtype = DType::bfloat16;  ///< of what was sent, where ranks' values are added
  /// PyTorch called it, one call behind the other: small ones wait for its host (CollectivePrice::period). Else a
  /// program in C, as nccl-tests.
  bool by_pytorch = false;
  std::optional<bool> in_place = {};  ///< which half of nccl-tests' row `us` is; none: the file has no halves

  [[nodiscard]] double bus_gb_per_s() const;  ///< nccl-tests' busbw
};

/// A kernel and a collective, each alone and each while the other runs all the time.
struct ContentionSample {
  std::string kernel;  ///< as the file names it: "gemm8192"
  KernelClass kernel_class = KernelClass::gemm;
  CollectiveKind kind = CollectiveKind::all_gather;
  Transport transport = Transport::nccl;
  std::uint32_t ranks = 0;
  Bytes bytes = 0;  ///< of the collective, as CollectiveSample::bytes; 0: the file does not say
  double kernel_isolated_us = 0;
  double kernel_concurrent_us = 0;
  double collective_isolated_us = 0;
  double collective_concurrent_us = 0;
  bool upcasts = false;  ///< as CollectiveRequest::upcasts
};

/// What one thing achieves at one size.
struct RateSample {
  enum class What : std::uint8_t { hbm_copy = 0, peer_copy = 1, gemm_bfloat16 = 2, gemm_float32 = 3 };
  What what = What::hbm_copy;
  std::uint64_t size = 0;  ///< bytes of a copy, m = n = k of a GEMM; 0: not said
  double rate = 0;         ///< GB/s (hbm_copy: read plus written), TFLOP/s
};

/// One isolated kernel, as a program ran it. What KernelWork says of it before it has a time.
struct KernelSample {
  std::string label;  ///< what the program calls it: "aten::mul"
  KernelMath math = {};
  Bytes bytes = 0;  ///< of Kind::bytes
  double us = 0;
  double held_us = 0;  ///< while the profile's contention.held_sms are held; 0: not measured
  double streamed_us =
      0;  ///< while what holds them streams memory as contention.streamed_bandwidth says; 0: not measured
};

/// One node as NCCL sees it.
struct NodeTopology {
  std::uint32_t gpus = 0;
  std::uint32_t sm = 0;              ///< compute capability: 90
  std::uint32_t nvlinks = 0;         ///< of each GPU
  bool nvswitch = false;             ///< links lead to a switch, so that all reach all
  double nvlink_gb_per_s = 0;        ///< of one GPU, one direction, as NCCL plans with
  double pcie_gb_per_s = 0;          ///< GPU's slot, one direction
  std::vector<double> nic_gb_per_s;  ///< one a port
  /// Of each port, the share of its adapter's PCIe slot, one direction; 0: the file does not say.
  std::vector<double> nic_slot_gb_per_s;
  /// By GPU, in the order of their ranks, the ports that are nearest to it in the tree: behind the same PCIe switch,
  /// the lowest that has one; else of the same CPU; else all. NCCL's choice where all ways carry as much: it compares
  /// bandwidths first (ncclTopoGetLocal, graph/topo.cc). Places in nic_gb_per_s, ascending.
  std::vector<std::vector<std::uint32_t>> nearest;
  bool gdr = false;  ///< every GPU and NIC can do GPUDirect RDMA
};

/// What one capture tells in addition to its workload.
struct CaptureSample {
  std::string name;
  double host_scale = 0;     ///< unprofiled host time over that under the profiler
  double kernel_gap_us = 0;  ///< median, of `kernel_pairs` kernels that were already queued
  std::uint64_t kernel_pairs = 0;
};

/// An oddity that did not stop the reading.
struct InputNote {
  std::string text;
  std::uint64_t count = 0;
};

struct Measurements {
  std::string path;
  std::string digest;  ///< "xxh3:…", where the caller knows it
  Bytes size = 0;
  std::string format;  ///< "nccl-tests text", "nccl-tests JSON", "probe file", "NCCL topology", "run store"
  std::string gpu;     ///< device name where the file has it
  std::vector<CollectiveSample> collectives;
  std::vector<ContentionSample> contention;
  std::vector<RateSample> rates;
  std::vector<KernelSample> kernels;
  std::optional<NodeTopology> node;
  std::optional<CaptureSample> capture;
  std::vector<InputNote> notes;

  /// Counts `text`, once for each call.
  void note(std::string_view text);
  /// Things read: samples of all kinds.
  [[nodiscard]] std::size_t samples() const;
};

struct ReadOptions {
  Transport transport = Transport::nccl;  ///< of nccl-tests output that does not name its options
  /// Of nccl-tests output whose collective neither header, nor file name, nor bandwidths tell.
  std::optional<CollectiveKind> kind = {};
};

/// Reads any of the text formats; which one, its first bytes say. `where` names it in errors. Refused (input): what is
/// none of them, is cut short, contradicts itself, or holds nothing that is used.
[[nodiscard]] Result<Measurements> read_measurements(std::string_view text, std::string_view where,
                                                     const ReadOptions& options = {});

}  // namespace foreshard::sim

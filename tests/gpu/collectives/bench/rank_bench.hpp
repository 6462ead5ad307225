// One rank of the benchmark: a variant's collective made callable, timed alone and beside compute, and checked.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/collectives/communicator.hpp"
#include "tests/gpu/collectives/bench/compute_load.hpp"
#include "tests/gpu/collectives/bench/variant.hpp"

namespace foreshard::gpu {

using Issue = std::function<void(cudaStream_t)>;

class RankBench {
 public:
  /// `gpus`: rank r works on GPU r % gpus. `largest`: bytes of each buffer.
  RankBench(Bootstrap& bootstrap, const std::vector<Variant>& variants, std::uint32_t gpus, Bytes largest,
            std::FILE* out);
  ~RankBench();
  RankBench(const RankBench&) = delete;
  RankBench& operator=(const RankBench&) = delete;

  /// Times the variant at each size, alone.
  void sizes(const Variant& variant, const std::vector<Bytes>& sizes);
  /// Times the variant at `bytes` beside each load, and the load beside it: compute, or another kind's `beside` of the
  /// same size, an own one with the variant's tuning. The collective is called while the load's second kernel runs.
  void contention(const Variant& variant, Bytes bytes, const std::optional<Variant>& beside = std::nullopt);
  /// `repeats` calls of changing sizes and dtypes on random data, checked bit by bit; returns the wrong elements.
  std::uint64_t check(const Variant& variant, std::uint64_t repeats);
  /// What ran, from the communicators' accounts.
  void paths();

 private:
  struct Buffers {
    void* gather = nullptr;   ///< output of an all-gather, input in place
    void* scatter = nullptr;  ///< input of a reduce-scatter
    void* result = nullptr;   ///< output of a reduce-scatter
  };
  Buffers& buffers(Transport transport);
  void use(const Variant& variant);
  void call(const Variant& variant, Bytes bytes, DType dtype, DType output_type, Reduction reduction,
            cudaStream_t stream);
  Issue issue(const Variant& variant, Bytes bytes);
  double timed(const Issue& work, int iterations);
  double of_rank_0(double value);
  void barrier();
  void emit(const std::string& json);

  Bootstrap& bootstrap_;
  Bytes largest_;
  std::FILE* out_;
  std::unique_ptr<SymmetricHeap> heap_;
  std::unique_ptr<Communicator> nccl_;
  std::unique_ptr<SymmMemCollectives> own_;  ///< of the variant in use
  std::string used_;
  std::optional<Buffers> buffers_[5];
  std::unique_ptr<GemmLoad> gemm_;
  std::unique_ptr<StreamLoad> copy_;
  cudaStream_t comm_stream_ = nullptr;
  cudaStream_t load_stream_ = nullptr;
};

}  // namespace foreshard::gpu

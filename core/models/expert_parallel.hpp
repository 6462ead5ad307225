// A block's experts split over neighbouring ranks, as torchtitan runs them under FSDP2 on PyTorch 2.11: tokens go to
// the ranks that have their experts by all-to-all, through one grouped GEMM, and back.
//
// Source: torchtitan, distributed/expert_parallel.py (ExpertParallel._token_dispatch, _token_combine), models/common/
// moe/utils.py (_generate_permute_indices, without padding: pull request 2255), distributed/fsdp.py (a fully_shard of
// the experts on the rest of the mesh, inside the block's; on PyTorch 2.12 and later a group of the block's unit). No
// run of it was compared: requests are derived.
//
// Who: hf_decoder_family.cpp. Not for other rooms.
#pragma once

#include <cstdint>

#include "core/models/hf_experts.hpp"
#include "core/models/trained_model.hpp"
#include "core/models/wrapped_model.hpp"

namespace foreshard::model {

/// Gives the expert-parallel parameters of each unit a unit of their own behind it, named as the module that has them,
/// or (`as_groups`) makes them its second group; parameters are numbered anew.
void split_experts(TrainedModel& model, bool as_groups);

/// Rows that a rank receives for `rows` that each sends: `imbalance` times as many, rounded up, on the rank with most.
[[nodiscard]] std::uint64_t received_rows(std::uint64_t rows, double imbalance);

/// Rows of block `block`, sorted by expert, through the experts of all ranks, in the experts' own unit where they have
/// one. The host waits for the GPU in forward, to learn how many rows go where.
[[nodiscard]] Tensor run_dispatched(WrappedModel& model, std::uint32_t block, const HfExperts& weights,
                                    const Tensor& rows, const Tensor& counts);

}  // namespace foreshard::model

// The further ops of a mixture of experts on a tape, in the manner of ops.hpp: what each allocates, launches, saves and
// does in backward (derivatives.yaml, ATen's CUDA implementations; PyTorch 2.11).
//
// Who: hf_routing.cpp, hf_experts.cpp, expert_parallel.cpp.
#pragma once

#include "core/models/ops.hpp"

namespace foreshard::model {

/// Of cumsum over one dimension: CUB's DeviceScan of what one tile holds.
inline constexpr Bytes kScanWorkspace = 1023;

struct Chosen {
  Tensor values;
  Tensor indices;  ///< int64
};

[[nodiscard]] Tensor softmax(Tape& tape, const Tensor& x);  ///< over the last dimension
/// Over the last dimension; `sorted` takes a kernel more.
[[nodiscard]] Chosen topk(Tape& tape, const Tensor& x, std::uint64_t k, bool sorted = true);
/// x.gather(-1, indices); backward scatters into zeros.
[[nodiscard]] Tensor gather_last(Tape& tape, const Tensor& x, const Tensor& indices);
[[nodiscard]] Chosen sort(Tape& tape, const Tensor& x);        ///< int64, one dimension, no gradient
[[nodiscard]] Tensor cumsum(Tape& tape, const Tensor& x);      ///< one dimension, short, no gradient
[[nodiscard]] Tensor sum_last(Tape& tape, const Tensor& x);    ///< sum(-1, keepdim=True)
[[nodiscard]] Tensor sum_middle(Tape& tape, const Tensor& x);  ///< sum(dim=1) of three dimensions
/// a /= b with b one number a row; autograd keeps a copy of what a was.
[[nodiscard]] Tensor divide_in_place(Tape& tape, const Tensor& a, const Tensor& b);
/// x[indices] over the first dimension; backward adds with a sort (index_put_ accumulate).
[[nodiscard]] Tensor index_rows(Tape& tape, const Tensor& x, const Tensor& indices);
/// out = empty; out[indices] = x over the first dimension, each row once; backward gathers.
[[nodiscard]] Tensor put_rows(Tape& tape, const Tensor& x, const Tensor& indices);
/// all_to_all_single_autograd: `rows` rows come from the expert-parallel ranks for those of x; backward sends gradients
/// the other way.
[[nodiscard]] Tensor exchange_rows(Tape& tape, const Tensor& x, std::uint64_t rows);
/// x.masked_fill_(mask, 0) and x.masked_fill(mask, 0), with a mask entry for a row or for an element; the gradient is
/// copied and filled.
[[nodiscard]] Tensor masked_fill_in_place(Tape& tape, const Tensor& x, const Tensor& mask);
[[nodiscard]] Tensor masked_fill(Tape& tape, const Tensor& x, const Tensor& mask);
/// torch._grouped_mm(x, weights, offs): rows × k by groups × k × n, the rows of a group by its matrix.
[[nodiscard]] Tensor grouped_mm(Tape& tape, const Tensor& x, const Tensor& weights, const Tensor& offsets);

}  // namespace foreshard::model

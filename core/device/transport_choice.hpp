// Which transport runs when one is asked for: NCCL and PyTorch fall back without a word, and foreshard has not built
// all of PyTorch's. The one place where a transport stands for another, for plans and for GPUs.
//
// Who: sim/collectives prices what runs, gpu/collectives runs it; core/settings' carried_out() for what changes the
// step itself. Rules of NCCL 2.28.9 (src/enqueue.cc, src/ce_coll.cc, src/symmetric_sched.cc, src/sym_kernels.cc), of
// pytorch#130583 and of gpu/collectives, each beside its line in transport_choice.cpp. Pure; the facts must be the same
// on all ranks of the group, and so is the choice then.
#pragma once

#include <cstdint>
#include <string>

#include "core/device/collective.hpp"
#include "core/device/lowering.hpp"
#include "core/device/transport_traits.hpp"

namespace foreshard {

/// What decides besides the call itself.
struct TransportFacts {
  Lowering lowering = Lowering::pytorch;  ///< whose collectives there are
  std::uint32_t ranks = 1;
  bool one_host = true;     ///< all ranks of the group are on one host
  bool peer_memory = true;  ///< … and its GPUs share memory
  bool registered = true;   ///< the buffers that the transport asked for wants registered or symmetric are
};

struct TransportChoice {
  Transport transport = Transport::nccl;  ///< what runs
  std::string why;                        ///< why it is not what was asked for; empty where it is
};

/// Decides for one call: its kind, transport asked for, bytes, dtypes and reduction count, its addresses do not.
[[nodiscard]] TransportChoice choose_transport(const CollectiveWork& work, const TransportFacts& facts);

/// The transport whose algorithm carries out `asked` in a program of this lowering where nothing else is in its way.
[[nodiscard]] Transport algorithm_of(CollectiveKind kind, Transport asked, Lowering lowering);

/// Whether NCCL's symmetric kernels and foreshard's pull_reduce add values of this dtype (float8 left out).
[[nodiscard]] constexpr bool reducible(DType dtype) {
  return dtype == DType::float32 || dtype == DType::bfloat16 || dtype == DType::float16;
}

}  // namespace foreshard

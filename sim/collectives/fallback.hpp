// Which transport runs when one is asked for: NCCL and PyTorch fall back without a word. Rules of NCCL 2.28.9
// (src/enqueue.cc, src/ce_coll.cc, src/symmetric_sched.cc) and of pytorch#130583.
#pragma once

#include <string>

#include "sim/collectives/group.hpp"

namespace foreshard::sim {

struct Route {
  Transport transport = Transport::nccl;  ///< what runs
  std::string why;                        ///< why it is not what was asked for; empty where it is
};

[[nodiscard]] Route route(const CollectiveRequest& request, const Group& group);

}  // namespace foreshard::sim

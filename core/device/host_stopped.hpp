// What ends a host program in virtual time: its host waits for what never comes.
#pragma once

namespace foreshard {

/// Thrown by a Device in virtual time from the call that would never return: a collective's peers do not come
/// (sim/engine/sim_device.hpp). Never leaves run_steps(), which keeps what happened until then.
struct HostStopped {};

}  // namespace foreshard

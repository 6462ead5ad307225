// NCCL's topology XML, written where NCCL_TOPO_DUMP_FILE says and read from NCCL_TOPO_FILE.
//
// Gives one node: GPUs with their SM architecture and NVLinks, NICs with their speed, PCIe. Bandwidths are those that
// NCCL plans with (NCCL 2.28 graph/topo.h: per NVLink 20 GB/s on sm_80, 20.6 on sm_90, 40.1 on sm_100; net speed
// /8000; PCIe by lanes and speed). Pure; the XML is parsed by pugixml, which loads no external entities.
#pragma once

#include "sim/calibrate/measurements.hpp"

namespace foreshard::sim {

/// Refused (input): what is no XML (with the byte), no <system>, no GPU; GPUs of different architectures or link
/// counts; a GPU or NIC with an impossible number; several hosts in one file.
[[nodiscard]] Result<Measurements> read_topology(std::string_view text, std::string_view where);

}  // namespace foreshard::sim

// Small inputs of each format, as the programs write them.
#pragma once

#include <string>
#include <string_view>

#include "tests/catch.hpp"

namespace foreshard::sim {

/// An 8-rank all-gather as nccl-tests 2.17 prints it.
inline constexpr std::string_view kAllGatherText =
    "# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809\n"
    "# Collective test starting: all_gather_perf\n"
    "# nThread 1 nGpus 8 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 "
    "validation: 1 graph: 0 unalign: 0\n"
    "#\n"
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid  15711 on     node-a device  0 [0000:18:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid  15711 on     node-a device  1 [0000:2a:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  2 Group  0 Pid  15711 on     node-a device  2 [0000:3a:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  3 Group  0 Pid  15711 on     node-a device  3 [0000:5d:00] NVIDIA H100 80GB HBM3\n"
    "#\n"
    "#                                                              out-of-place                       in-place        "
    "  \n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
    "#wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)     "
    "  \n"
    "     1048576         65536     float    none      -1    43.27   24.23   18.17      0    42.27   24.81   18.60     "
    " "
    "0\n"
    "    16777216       1048576     float    none      -1    62.00  270.60  202.95    N/A    61.57  272.49  204.37    "
    "N/A\n"
    "# Out of bounds values : 0 OK\n"
    "# Avg bus bandwidth    : 110.000 \n"
    "#\n";

inline constexpr std::string_view kReduceScatterJson = R"({"version":1,"start_time":"x","args":[
"./reduce_scatter_perf","-b","1M","-R","2"],"env":[],"nccl_version":22809,
"config":{"nthreads":1,"ngpus":2,"blocking_collectives":"false","devices":[
{"rank":0,"group":0,"pid":1,"hostname":"a","device":0,"device_hex":"0x18","device_info":"NVIDIA H200"},
{"rank":1,"group":0,"pid":1,"hostname":"b","device":0,"device_hex":"0x18","device_info":"NVIDIA H200"}]},
"results":[{"size":1048576,"count":262144,"type":"float","redop":"sum","root":"    -1",
"out_of_place":{"time":20.0,"alg_bw":52.4288,"bus_bw":26.2144,"nwrong":0.0},
"in_place":{"time":19.0,"alg_bw":55.188,"bus_bw":27.594,"nwrong":null},"actual_iterations":20}],
"out_of_bounds":{"count":0,"okay":"true"},"end_time":"y"})";

inline constexpr std::string_view kTopology = R"(<system version="1">
  <cpu host_hash="0x16fe" numaid="0" affinity="00ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="207">
    <pci busid="0000:16:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:18:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:07:00.0" count="10" tclass="0x068000"/>
          <nvlink target="0000:08:00.0" count="8" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:19:00.0" class="0x020000" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" port="1" latency="0.000000" guid="0xa8" maxconn="131072" gdr="1"/>
        </nic>
      </pci>
      <pci busid="0000:2a:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="90" rank="1" gdr="1"><nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/></gpu>
      </pci>
    </pci>
  </cpu>
</system>
)";

inline std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out(text);
  const std::size_t at = out.find(from);
  INFO(from);
  REQUIRE(at != std::string::npos);
  return out.replace(at, from.size(), to);
}

}  // namespace foreshard::sim

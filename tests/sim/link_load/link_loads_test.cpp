// What collectives put on links, against sums by hand, and plans against recordings of the same collectives.

#include "sim/link_load/link_loads.hpp"

#include <algorithm>
#include <map>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "core/run/collective_key.hpp"
#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

constexpr double kGb = 1e9;

/// A run with collectives on communicators, times in ns.
struct Sketch {
  Sketch(std::uint32_t gpus, std::uint32_t nodes, std::uint32_t replicate = 1) {
    run.info.kind = RunKind::imported;
    run.settings.gpus = gpus;
    run.settings.nodes = nodes;
    run.settings.replicate = replicate;
    run.units = {{"", {}, {}}, {"layers.0", {}, {}}};
  }
  DeviceOpRecord& add(CollectiveKind kind, Bytes bytes, std::uint32_t communicator, std::int64_t start = 0,
                      std::int64_t end = 1'000'000) {
    DeviceOpRecord op;
    op.kind = DeviceOpRecord::Kind::collective;
    op.collective = kind;
    op.bytes = bytes;
    op.communicator = CommunicatorId{communicator};
    op.unit = UnitId{1};
    op.start = {start};
    op.end = {end};
    return run.device_ops.emplace_back(op);
  }
  [[nodiscard]] std::map<LinkClass, double> bytes() const {
    std::map<LinkClass, double> out;
    for (const LinkLoad& link : link_loads(run, &workload, machine).links)
      for (const LinkTransfer& transfer : link.transfers) out[link.link] += transfer.bytes;
    return out;
  }

  Run run;
  Workload workload;
  MachineProfile machine = builtin_profile("h200").value();
};

using Bytes_ = std::map<LinkClass, double>;

Prediction plan_of(Settings settings, const MachineProfile& machine, Workload& workload,
                   const Differences& differences = {}) {
  settings.batch = 2;
  settings.seq = 1024;
  settings.param_dtype = DType::bfloat16;
  workload = generate(*preset("llama-1b"), settings, machine.host_calls, machine.gpu(), true).value();
  PredictRequest request;
  request.settings = workload.settings;
  request.differences = differences;
  request.kept_ranks = 64;
  auto p = predict(workload, machine, request);
  INFO((p ? "" : p.error().text()));
  REQUIRE(p);
  return std::move(*p);
}

}  // namespace

TEST_CASE("on one node (n - 1)/n of the buffer goes over NVLink") {
  Sketch sketch(8, 1);
  sketch.add(CollectiveKind::all_gather, 800'000'000, 0);
  sketch.add(CollectiveKind::reduce_scatter, 800'000'000, 0, 2'000'000, 4'000'000);
  CHECK(sketch.bytes() == Bytes_{{LinkClass::nvlink, 1.4 * kGb}});
  const LinkLoads loads = link_loads(sketch.run, nullptr, sketch.machine);
  CHECK(loads.machine == "h200");
  CHECK(loads.not_placed == 0);
  REQUIRE(loads.links.size() == 1);
  CHECK(loads.links[0].most == sketch.machine.links.ring);
  CHECK(load_over_time(loads.links[0])[1].gb_s == 350);
}

TEST_CASE("across nodes one step in eight goes over the adapters") {
  Sketch sketch(8, 2);
  sketch.add(CollectiveKind::all_gather, 1'600'000'000, 0);
  // 15 parts of 100 MB; of a ring of 16 a GPU's share of the steps between nodes is an eighth.
  CHECK(sketch.bytes() == Bytes_{{LinkClass::nvlink, 1.5 * kGb * 7 / 8}, {LinkClass::adapter, 1.5 * kGb / 8}});
  const LinkLoads loads = link_loads(sketch.run, nullptr, sketch.machine);
  CHECK(loads.links[1].most == 48);  // 400 Gb/s, of which NCCL reaches 0.96
}

TEST_CASE("a link carries what its slowness and other traffic leave the job") {
  Sketch sketch(8, 8);
  sketch.machine.network.leaf_nodes = 4;
  sketch.machine.network.oversubscription = 2;
  sketch.add(CollectiveKind::all_gather, 6'400'000'000, 0);
  const auto most = [&](std::size_t link) { return link_loads(sketch.run, nullptr, sketch.machine).links[link].most; };
  const double ring = most(0);
  sketch.machine.network.background = {0.25, 0.5};
  CHECK(most(1) == 0.75 * 48);
  CHECK(most(2) == 0.5 * 4 / 2.0 * 48);
  // Of adapters that are slow, too: the own one.
  sketch.machine.network.slow_adapters = {{0, 0, 2}};
  CHECK(most(1) == 0.25 * 48);
  sketch.machine.network.slow_adapters = {{1, 0, 2}, {0, 3, 2}};
  CHECK(most(1) == 0.75 * 48);
  sketch.machine.links.slow_links = {{1, 4}};
  CHECK(most(0) == ring);
  sketch.machine.links.slow_links.push_back({0, 4});
  CHECK(most(0) == ring / 4);
}

TEST_CASE("each mesh dimension's collectives are on its own links") {
  Sketch sketch(8, 2, 2);  // shards inside nodes, replicas across
  sketch.add(CollectiveKind::all_gather, 800'000'000, 4);
  sketch.add(CollectiveKind::reduce_scatter, 800'000'000, 4);
  sketch.add(CollectiveKind::all_reduce, 100'000'000, 2);
  const Bytes_ bytes = sketch.bytes();
  CHECK(bytes.at(LinkClass::nvlink) == 1.4 * kGb);
  CHECK(bytes.at(LinkClass::adapter) == 0.1 * kGb);  // of two nodes: half of it there, half back
}

TEST_CASE("experts' gathers are among the ranks that hold the same experts") {
  Sketch sketch(8, 2);
  sketch.run.settings.expert_parallel = 8;  // the rest of the mesh: two ranks, one a node
  sketch.add(CollectiveKind::all_gather, 0, 3).unit = kRootUnit;
  sketch.add(CollectiveKind::all_gather, 800'000'000, 4);
  sketch.add(CollectiveKind::reduce_scatter, 800'000'000, 4);
  CHECK(sketch.bytes() == Bytes_{{LinkClass::adapter, 0.8 * kGb}});  // half of each buffer
}

TEST_CASE("the uplink of a leaf carries each ring that leaves it once, whoever's it is") {
  Sketch sketch(8, 8);
  sketch.machine.network.leaf_nodes = 4;
  sketch.machine.network.oversubscription = 2;
  sketch.add(CollectiveKind::all_gather, 6'400'000'000, 0);
  const double own = 6.3 * kGb / 8;
  CHECK(sketch.bytes() ==
        Bytes_{{LinkClass::nvlink, 6.3 * kGb - own}, {LinkClass::adapter, own}, {LinkClass::leaf, own}});
  const LinkLoads loads = link_loads(sketch.run, nullptr, sketch.machine);
  CHECK(loads.links[2].most == 4 / 2.0 * 48);
  // Replicas 4 nodes apart: of each leaf's four nodes one ring a rail leaves it.
  Sketch replicas(8, 8, 2);
  replicas.machine = sketch.machine;
  replicas.add(CollectiveKind::all_gather, 3'200'000'000, 0);
  replicas.add(CollectiveKind::reduce_scatter, 3'200'000'000, 0);
  replicas.add(CollectiveKind::all_reduce, 100'000'000, 1);
  CHECK(replicas.bytes().at(LinkClass::leaf) == 4 * 0.1 * kGb);
}

TEST_CASE("pods and dragonflies have links of their own") {
  Sketch sketch(8, 16);
  sketch.machine.network.leaf_nodes = 2;
  sketch.machine.network.pod_nodes = 4;
  sketch.add(CollectiveKind::all_gather, 1'280'000'000, 0);
  const double own = 1.27 * kGb / 8;
  CHECK(sketch.bytes().at(LinkClass::leaf) == own);
  CHECK(sketch.bytes().at(LinkClass::pod) == own);
  sketch.machine.network.leaf_nodes = sketch.machine.network.pod_nodes = 0;
  sketch.machine.network.group_nodes = 4;
  CHECK(sketch.bytes().at(LinkClass::group) == own);
  CHECK_FALSE(sketch.bytes().contains(LinkClass::leaf));
}

TEST_CASE("the program's own collectives are among the groups of its workload") {
  Sketch sketch(8, 1);
  sketch.run.settings.tensor_parallel = sketch.workload.settings.tensor_parallel = 2;
  sketch.workload.settings.gpus = 8;
  sketch.add(CollectiveKind::all_gather, 400'000'000, 0);
  sketch.add(CollectiveKind::reduce_scatter, 400'000'000, 0);
  sketch.add(CollectiveKind::all_reduce, 100'000'000, 1);
  CHECK(sketch.bytes() == Bytes_{{LinkClass::nvlink, 0.6 * kGb}});  // of shards over 4 alone
  CHECK(link_loads(sketch.run, &sketch.workload, sketch.machine).not_placed == 1);
  Op op;
  op.kind = OpKind::collective;
  op.collective = {0, CollectiveKind::all_reduce, 100'000'000};
  sketch.workload.process_groups = {{"mesh_tp", 2, 1, false}};
  sketch.workload.steps.emplace_back().ops = {op};
  CHECK(sketch.bytes() == Bytes_{{LinkClass::nvlink, 0.7 * kGb}});
  CHECK(link_loads(sketch.run, &sketch.workload, sketch.machine).not_placed == 0);
  CHECK(link_loads(sketch.run, nullptr, sketch.machine).not_placed == 1);
}

TEST_CASE("what stays together after forward is gathered among those ranks") {
  Sketch sketch(8, 2);
  sketch.run.settings.reshard_after_forward = {Reshard::Kind::group, 8};
  sketch.add(CollectiveKind::all_gather, 1'600'000'000, 0);
  sketch.add(CollectiveKind::all_gather, 1'600'000'000, 1);  // in backward
  CHECK(sketch.bytes() ==
        Bytes_{{LinkClass::nvlink, 1.5 * kGb * 7 / 8 + 1.4 * kGb}, {LinkClass::adapter, 1.5 * kGb / 8}});
}

TEST_CASE("nothing moves before the last rank has come") {
  Sketch sketch(2, 1);
  sketch.run.ranks = {{0, {}, {}}, {1, {}, {}}};
  const DeviceOpRecord own = sketch.add(CollectiveKind::all_gather, 200'000'000, 0, 1'000, 9'000);
  DeviceOpRecord other = own;
  other.start = {5'000};
  sketch.run.rank_ops = {{0, 0, {}, 0, own}, {1, 0, {}, 0, other}};
  const LinkLoads loads = link_loads(sketch.run, nullptr, sketch.machine);
  REQUIRE(loads.links.size() == 1);
  CHECK(loads.links[0].transfers[0].begin.count == 5'000);
  CHECK(loads.links[0].transfers[0].end.count == 9'000);
}

TEST_CASE("groups that no mesh of the run has room for are told, not priced") {
  Sketch sketch(2, 1);
  sketch.run.settings.reshard_after_forward = {Reshard::Kind::group, 4'000'000'000};
  sketch.add(CollectiveKind::all_gather, 100, 0);
  sketch.add(CollectiveKind::all_gather, 100, 1);
  sketch.add(CollectiveKind::send_recv, 100, 2);
  CHECK(link_loads(sketch.run, nullptr, sketch.machine).not_placed == 2);
}

// The root has no weight in float8: that tells the group of their maxima from the replicas'.
TEST_CASE("maxima of float8 weights stay within the shard group, gradients go to the replicas") {
  Sketch sketch(8, 2, 2);
  sketch.add(CollectiveKind::all_reduce, 80'000'000, 0).unit = kRootUnit;
  sketch.add(CollectiveKind::all_reduce, 8'000, 1);
  CHECK(sketch.bytes().count(LinkClass::nvlink) == 0);
  sketch.run.settings.float8_all_gather = true;
  CHECK(sketch.bytes().count(LinkClass::nvlink) == 1);
  CHECK(link_loads(sketch.run, nullptr, sketch.machine).not_placed == 0);
}

TEST_CASE("a plan's links are those of a recording with its collectives, whatever the numbers of communicators") {
  MachineProfile machine = builtin_profile("h200").value();
  machine.network.leaf_nodes = 2;
  machine.network.oversubscription = 2;
  Settings settings;
  settings.gpus = 8;
  settings.nodes = 4;
  settings.replicate = 2;
  settings.tensor_parallel = 2;
  Workload workload;
  const Prediction p = plan_of(settings, machine, workload);
  const LinkLoads planned = link_loads(p.run, &workload, machine);
  CHECK(planned.not_placed == 0);
  CHECK(planned.links.size() == 3);
  Run recorded = p.run;
  recorded.info.kind = RunKind::imported;
  for (DeviceOpRecord& op : recorded.device_ops)
    if (op.kind == DeviceOpRecord::Kind::collective) op.communicator.value = 40 - op.communicator.value;
  const LinkLoads read = link_loads(recorded, &workload, machine);
  REQUIRE(read.links.size() == planned.links.size());
  for (std::size_t i = 0; i < read.links.size(); ++i) {
    CHECK(read.links[i].most == planned.links[i].most);
    REQUIRE(read.links[i].transfers.size() == planned.links[i].transfers.size());
    for (std::size_t t = 0; t < read.links[i].transfers.size(); ++t) {
      CHECK(read.links[i].transfers[t].bytes == planned.links[i].transfers[t].bytes);
      CHECK(read.links[i].transfers[t].op == planned.links[i].transfers[t].op);
    }
  }
}

TEST_CASE("a job whose ranks differ moves the same bytes, and none while it waits for the late one") {
  const MachineProfile machine = builtin_profile("h200").value();
  Settings settings;
  settings.gpus = 8;
  settings.nodes = 2;
  Workload workload;
  const Prediction alike = plan_of(settings, machine, workload);
  Differences differences;
  differences.ranks = {{.rank = 5, .kernels = 1.5}};
  const Prediction late = plan_of(settings, machine, workload, differences);
  const auto use = [&](const Prediction& p, std::size_t link) {
    return link_use(link_loads(p.run, &workload, machine).links.at(link), explain_time(p.run).value());
  };
  for (const std::size_t link : {0U, 1U}) {
    CHECK(use(late, link).bytes == Approx(use(alike, link).bytes).epsilon(0.1));
    CHECK(use(late, link).waited_idle > use(alike, link).waited_idle);
    CHECK(use(alike, link).peak_gb_s <= link_loads(alike.run, &workload, machine).links[link].most);
  }
}

}  // namespace foreshard::sim

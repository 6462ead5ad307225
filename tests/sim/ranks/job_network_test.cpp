// Groups that meet behind the adapters: alone and all together they take what they are priced at, what is between moves
// between, and folding still changes nothing.
#include "sim/ranks/job_network.hpp"

#include <array>
#include <random>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/collectives/modelled_collectives.hpp"
#include "sim/ranks/job.hpp"
#include "tests/catch.hpp"
#include "tests/sim/ranks/logged_program.hpp"

namespace foreshard::sim {
namespace {

constexpr std::uint32_t kNodeGpus = 2;

/// Leaves of so many nodes; `dragonfly`: groups of them instead.
MachineProfile on_leaves(std::uint32_t leaf, double oversubscription, bool dragonfly = false) {
  MachineProfile machine = *builtin_profile("h100");
  (dragonfly ? machine.network.group_nodes : machine.network.leaf_nodes) = leaf;
  machine.network.oversubscription = oversubscription;
  machine.network.level_latency = 1;
  return machine;
}

/// Two GPUs a node, shard groups of `nodes_of_shard` nodes.
std::vector<CommunicatorOptions> hybrid_mesh(std::uint32_t nodes, std::uint32_t nodes_of_shard) {
  CommunicatorOptions shard{"shard", nodes_of_shard * kNodeGpus, kNodeGpus};
  CommunicatorOptions replicate{"replicate", nodes / nodes_of_shard, 1};
  for (std::uint32_t i = 0; i < shard.ranks; ++i) shard.members.push_back(i);
  for (std::uint32_t i = 0; i < replicate.ranks; ++i) replicate.members.push_back(i * shard.ranks);
  replicate.node_stride = nodes_of_shard;
  shard.all_nodes = replicate.all_nodes = nodes;
  return {shard, replicate};
}

CollectiveRequest request_of(const CommunicatorOptions& group, CollectiveKind kind, Bytes bytes) {
  CollectiveRequest out{kind, Transport::nccl, bytes, group.ranks, group.ranks_per_node};
  out.node_stride = group.node_stride;
  out.all_nodes = group.all_nodes;
  return out;
}

bool within(Nanoseconds a, Nanoseconds b, double share) {
  return std::abs(static_cast<double>(a.count - b.count)) <= share * static_cast<double>(b.count);
}

struct OnFabric {
  MachineProfile machine;
  HostProgram program;
  std::vector<Nanoseconds> alone;  // one rank's simulation
  Workload workload;
};

OnFabric play_on_leaves(std::uint32_t leaf, double oversubscription, std::uint32_t replicate, bool dragonfly = false,
                        std::uint32_t nodes = 8) {
  OnFabric out{on_leaves(leaf, oversubscription, dragonfly), {}, {}, {}};
  Settings settings;
  settings.gpus = kNodeGpus;
  settings.nodes = nodes;
  settings.replicate = replicate;
  settings.batch = 1;
  settings.seq = 256;
  settings.param_dtype = DType::bfloat16;
  out.workload = generate(*preset("llama-tiny"), settings, out.machine.host_calls, out.machine.gpu(), true).value();
  test::LoggedProgram logged = test::logged_program(out.workload, out.machine);
  out.alone = logged.simulation.step_end;
  out.program = std::move(logged.program);
  return out;
}

Job job_on(const OnFabric& on, const std::vector<RankTraits>& ranks, bool fold, const CollectiveCost* collectives) {
  JobRequest request;
  request.programs = {&on.program};
  request.ranks = ranks;
  request.host_scale = 0.1;
  request.fold = fold;
  request.keep_meetings = {0};
  request.fabric = {collectives, kNodeGpus};
  return simulate_job(on.machine, request);
}

/// Each group of a mesh as a flow of its own: those of its second dimension count behind those of its first.
class EachAlone {
 public:
  EachAlone(const MachineProfile& machine, const CollectiveCost& prices, const std::vector<CommunicatorOptions>& mesh,
            std::uint32_t ranks)
      : network_(machine, prices, {{mesh, ranks}}, kNodeGpus) {
    REQUIRE(network_.meets());
    std::vector<JobNetwork::Together> each;
    for (std::uint32_t c = 0; c < mesh.size(); ++c) {
      begin_.push_back(static_cast<std::uint32_t>(each.size()));
      for (const std::uint32_t first : network_.groups(c)) each.push_back({c, {first}});
    }
    begin_.push_back(static_cast<std::uint32_t>(each.size()));
    network_.set_flows(each);
  }
  [[nodiscard]] std::vector<std::uint32_t> groups(std::uint32_t communicator) const {
    std::vector<std::uint32_t> out;
    for (std::uint32_t i = begin_[communicator]; i < begin_[communicator + 1]; ++i) out.push_back(i);
    return out;
  }
  JobNetwork* operator->() { return &network_; }

 private:
  JobNetwork network_;
  std::vector<std::uint32_t> begin_;  // by communicator
};

}  // namespace

TEST_CASE("a group alone takes its price alone, all groups of a dimension theirs together") {
  for (const auto& [leaf, over, nodes, shard, dragonfly] : {std::tuple{4U, 4.0, 16U, 4U, false},
                                                            {4U, 2.0, 8U, 4U, false},
                                                            {4U, 4.0, 16U, 2U, false},
                                                            {2U, 2.0, 16U, 8U, false},
                                                            {2U, 2.0, 8U, 4U, true}}) {
    const MachineProfile machine = on_leaves(leaf, over, dragonfly);
    const ModelledCollectives prices(machine);
    const std::vector<CommunicatorOptions> mesh_of = hybrid_mesh(nodes, shard);
    EachAlone network(machine, prices, mesh_of, nodes * kNodeGpus);
    for (std::uint32_t c = 0; c < mesh_of.size(); ++c)
      for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                        CollectiveKind::all_reduce, CollectiveKind::all_to_all})
        for (const Bytes bytes : {Bytes{1} << 16, Bytes{1} << 22, Bytes{1} << 28}) {
          const CollectiveRequest request = request_of(mesh_of[c], kind, bytes);
          const std::vector<std::uint32_t> groups = network.groups(c);
          CollectiveRequest alone = request;  // no other group has a node
          alone.all_nodes = 0;
          CAPTURE(leaf, over, nodes, shard, c, static_cast<int>(kind), bytes);
          REQUIRE(network->begin(groups[0], request));
          network->settle();
          // Of several groups that interleave the price knows no single one.
          // A dragonfly of so few nodes has fewer groups, so wider links.
          if (mesh_of[c].node_stride == 1 && !dragonfly)
            CHECK(within(network->time(groups[0]), prices.price(alone).time, 0.02));
          const Nanoseconds first = network->time(groups[0]);
          for (std::size_t i = 1; i < groups.size(); ++i) REQUIRE(network->begin(groups[i], request));
          network->settle();
          Nanoseconds slowest;
          for (const std::uint32_t group : groups) slowest = std::max(slowest, network->time(group));
          CAPTURE(slowest.count, network->priced(request).count, first.count);
          CHECK(within(slowest, network->priced(request), 0.02));
          for (std::size_t i = 1; i < groups.size(); ++i) network->end(groups[i]);
          network->settle();
          CHECK(network->time(groups[0]) == first);
          network->end(groups[0]);
        }
  }
}

TEST_CASE("groups of two dimensions share a leaf's uplinks while both run") {
  const MachineProfile machine = on_leaves(4, 4);
  const ModelledCollectives prices(machine);
  const std::vector<CommunicatorOptions> mesh_of = hybrid_mesh(16, 8);
  EachAlone network(machine, prices, mesh_of, 32);
  const CollectiveRequest scatter = request_of(mesh_of[0], CollectiveKind::reduce_scatter, Bytes{1} << 28);
  const CollectiveRequest reduce = request_of(mesh_of[1], CollectiveKind::all_reduce, Bytes{1} << 28);
  REQUIRE(network->begin(0, scatter));
  network->settle();
  const Nanoseconds alone = network->time(0);
  for (const std::uint32_t first : network.groups(1)) REQUIRE(network->begin(first, reduce));
  network->settle();
  // A leaf lets one node's worth out. Of each rail four replica groups cross it, beside the shard group's ring.
  CHECK(network->time(0).count > 2 * alone.count);
  for (const std::uint32_t first : network.groups(1)) network->end(first);
  network->settle();
  CHECK(network->time(0) == alone);
}

TEST_CASE("groups that go together as one flow take what each takes as a flow of its own") {
  for (const auto& [leaf, over, nodes, shard, dragonfly] :
       {std::tuple{4U, 4.0, 16U, 8U, false}, {4U, 4.0, 16U, 2U, false}, {2U, 2.0, 8U, 4U, true}}) {
    const MachineProfile machine = on_leaves(leaf, over, dragonfly);
    const ModelledCollectives prices(machine);
    const std::vector<CommunicatorOptions> mesh_of = hybrid_mesh(nodes, shard);
    EachAlone each(machine, prices, mesh_of, nodes * kNodeGpus);
    JobNetwork folded(machine, prices, {{mesh_of, nodes * kNodeGpus}}, kNodeGpus);
    const RankClasses classes =
        rank_classes(std::vector<RankTraits>(nodes * kNodeGpus), {{groups_of(mesh_of[0])}, {groups_of(mesh_of[1])}},
                     true, &folded.shared_links());
    std::vector<JobNetwork::Together> together(classes.groups.size());
    std::vector<std::vector<std::uint32_t>> members(classes.groups.size());  // as `each` counts them
    for (std::uint32_t c = 0; c < 2; ++c)
      for (std::size_t i = 0; i < folded.groups(c).size(); ++i) {
        const std::uint32_t first = folded.groups(c)[i];
        const std::uint32_t index = classes.classes[classes.of_rank[first]].group[c];
        together[index].communicator = c;
        together[index].groups.push_back(first);
        members[index].push_back(each.groups(c)[i]);
      }
    folded.set_flows(together);
    CHECK(together.size() < each.groups(0).size() + each.groups(1).size());
    const CollectiveRequest scatter = request_of(mesh_of[0], CollectiveKind::reduce_scatter, Bytes{1} << 28);
    const CollectiveRequest reduce = request_of(mesh_of[1], CollectiveKind::all_reduce, Bytes{1} << 28);
    CAPTURE(leaf, nodes, shard, dragonfly);
    std::vector<std::uint32_t> moving;
    std::array<int, 2> compared{};  // by communicator
    const auto compare = [&] {
      folded.settle();
      each->settle();
      for (const std::uint32_t index : moving)
        for (const std::uint32_t one : members[index]) {
          CHECK(folded.time(index) == each->time(one));
          ++compared[together[index].communicator];
        }
    };
    for (std::uint32_t index = 0; index < together.size(); ++index) {
      const CollectiveRequest& request = together[index].communicator == 0 ? scatter : reduce;
      const bool begun = folded.begin(index, request);
      for (const std::uint32_t one : members[index]) REQUIRE(each->begin(one, request) == begun);
      if (begun) moving.push_back(index);
      compare();
    }
    while (!moving.empty()) {  // in the order in which they began
      folded.end(moving.front());
      for (const std::uint32_t one : members[moving.front()]) each->end(one);
      moving.erase(moving.begin());
      compare();
    }
    for (const int comparisons : compared) REQUIRE(comparisons > 0);
  }
}

TEST_CASE("jobs without a shared link behind the adapters have no network") {
  const MachineProfile flat = *builtin_profile("h100");
  const ModelledCollectives of_flat(flat);
  CHECK_FALSE(JobNetwork(flat, of_flat, {{hybrid_mesh(16, 4), 32}}, kNodeGpus).meets());
  const MachineProfile wide = on_leaves(4, 1);
  const ModelledCollectives of_wide(wide);
  CHECK_FALSE(JobNetwork(wide, of_wide, {{hybrid_mesh(16, 4), 32}}, kNodeGpus).meets());
  const MachineProfile narrow = on_leaves(4, 4);
  const ModelledCollectives of_narrow(narrow);
  CHECK_FALSE(JobNetwork(narrow, of_narrow, {{{hybrid_mesh(16, 16)[0]}, 32}}, kNodeGpus).meets());  // one group
}

TEST_CASE(
    "ranks that are alike on a fabric: between one without a bottleneck and what one rank's GPU knows of others") {
  // One rank's engine takes the busiest links of its two collectives for one link, which here they are not: the shard
  // groups, of two nodes, stay in their leaves.
  const OnFabric on = play_on_leaves(2, 2, 4), flat = play_on_leaves(2, 1, 4);
  const ModelledCollectives prices(on.machine);
  const Job job = job_on(on, std::vector<RankTraits>(16), true, &prices);
  REQUIRE(job.stuck.empty());
  CHECK(job.paced);
  CHECK(job.classes.classes.size() == 2);  // a tree has inner nodes and leaves
  for (std::size_t step = 0; step < on.alone.size(); ++step) {
    CAPTURE(flat.alone[step].count, job.ranks[0].step_ends[step].count, on.alone[step].count);
    CHECK(job.ranks[0].step_ends[step] <= on.alone[step]);
    CHECK(job.ranks[0].step_ends[step] > flat.alone[step]);
  }
}

TEST_CASE("on a fabric too folding changes nothing, and a rank's meetings give its steps again") {
  std::mt19937 random(11);
  for (const auto& [leaf, over, replicate, dragonfly] : {std::tuple{2U, 2.0, 4U, false},
                                                         {4U, 4.0, 2U, false},
                                                         {3U, 3.0, 4U, false},
                                                         {2U, 2.0, 2U, true},
                                                         {2U, 2.0, 4U, true}}) {
    const OnFabric on = play_on_leaves(leaf, over, replicate, dragonfly);
    const ModelledCollectives prices(on.machine);
    for (int round = 0; round < 4; ++round) {
      std::vector<RankTraits> ranks(16);
      for (int i = 0; i < round; ++i)
        ranks[random() % ranks.size()].kernels = 1 + 0.25 * static_cast<double>(1 + random() % 3);
      const Job folded = job_on(on, ranks, true, &prices);
      const Job all = job_on(on, ranks, false, &prices);
      REQUIRE(folded.stuck.empty());
      CHECK(all.classes.classes.size() == 16);
      CHECK(folded.classes.classes.size() <= 16);
      CAPTURE(leaf, replicate, dragonfly, round, folded.classes.classes.size());
      for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
        CHECK(folded.of(rank).step_ends == all.of(rank).step_ends);
        CHECK(folded.of(rank).waited == all.of(rank).waited);
      }
      SimulationRequest request;
      request.steps = {.steps = 3, .record = false, .warm = true};
      request.options.host_scale = 0.1;
      request.options.kernel_work = ranks[0].kernels;
      request.options.script = &folded.of(0).meetings;
      request.options.paced = true;
      Run ignored;
      const auto again = simulate(on.workload, on.workload.settings, on.machine, request, ignored);
      REQUIRE(again);
      CHECK(again->step_end == folded.of(0).step_ends);
    }
  }
}

TEST_CASE("two jobs on one fabric: folding changes nothing, and the first goes on as if alone where they do not meet") {
  const auto play = [](const OnFabric& on, const OnFabric& other, std::int64_t begin, bool fold, bool beside) {
    const ModelledCollectives prices(on.machine);
    JobRequest request;
    request.programs = {&on.program};
    request.ranks.resize(on.workload.settings.world());
    request.host_scale = 0.1;
    request.fold = fold;
    request.last_step = 1;
    request.fabric = {&prices, kNodeGpus};
    if (beside) {
      request.own_ranks = on.workload.settings.world();
      request.programs.push_back(&other.program);
      RankTraits traits;
      traits.program = 1;
      traits.begin = begin;
      request.ranks.insert(request.ranks.end(), other.workload.settings.world(), traits);
    }
    return simulate_job(on.machine, request);
  };
  // Leaves of three: the second job begins in the middle of one.
  for (const std::uint32_t replicate : {1U, 2U, 4U}) {
    const OnFabric on = play_on_leaves(3, 3, replicate), other = play_on_leaves(3, 3, 2);
    const Job alone = play(on, other, 0, true, false);
    for (const std::int64_t begin : {std::int64_t{0}, std::int64_t{1'234'567}}) {
      const Job folded = play(on, other, begin, true, true), all = play(on, other, begin, false, true);
      CAPTURE(replicate, begin, folded.classes.classes.size());
      CHECK(folded.jobs_meet);
      CHECK(all.classes.classes.size() == 32);
      for (std::uint32_t rank = 0; rank < 32; ++rank) {
        const std::size_t steps = std::min(folded.of(rank).step_ends.size(), all.of(rank).step_ends.size());
        CHECK(std::equal(all.of(rank).step_ends.begin(), all.of(rank).step_ends.begin() + steps,
                         folded.of(rank).step_ends.begin()));
        if (rank < 16) CHECK(folded.of(rank).step_ends.size() >= 2);
      }
      CHECK(folded.of(0).step_ends[1] > alone.of(0).step_ends[1]);
    }
  }
  const OnFabric on = play_on_leaves(4, 4, 2), other = play_on_leaves(4, 4, 4);
  const Job apart = play(on, other, 0, true, true);
  CHECK_FALSE(apart.jobs_meet);
  CHECK(apart.of(0).step_ends[1] == play(on, other, 0, true, false).of(0).step_ends[1]);
}

namespace {

void same(const Job& is, const Job& in_order, bool to_the_end) {
  REQUIRE(is.ranks.size() == in_order.ranks.size());
  REQUIRE(is.stuck.size() == in_order.stuck.size());
  for (std::size_t i = 0; i < is.ranks.size(); ++i) {
    INFO("class " << i);
    const JobRank& a = is.ranks[i];
    const JobRank& b = in_order.ranks[i];
    REQUIRE((a.step_ends == b.step_ends));  // not taken apart: it would print them
    REQUIRE((a.idle_for_ranks == b.idle_for_ranks));
    REQUIRE((a.awaited_in == b.awaited_in));
    if (!to_the_end) continue;
    REQUIRE(a.waited == b.waited);
    REQUIRE((a.awaited == b.awaited));
    REQUIRE(a.meetings.size() == b.meetings.size());
    for (std::size_t c = 0; c < a.meetings.size(); ++c) {
      REQUIRE(a.meetings[c].size() == b.meetings[c].size());
      for (std::size_t m = 0; m < a.meetings[c].size(); ++m) {
        const MeetingTimes& mine = a.meetings[c][m];
        const MeetingTimes& theirs = b.meetings[c][m];
        REQUIRE(mine.all_there == theirs.all_there);
        REQUIRE(mine.all_done == theirs.all_done);
        REQUIRE(mine.paces.size() == theirs.paces.size());
        for (std::size_t p = 0; p < mine.paces.size(); ++p) {
          REQUIRE(mine.paces[p].at == theirs.paces[p].at);
          REQUIRE(mine.paces[p].pace == theirs.paces[p].pace);
        }
      }
    }
  }
}

/// Ranks that are all unlike, and every other time draw their kernels and host work as well.
JobRequest unlike(const OnFabric& on, std::uint32_t ranks, unsigned seed, const CollectiveCost& collectives) {
  JobRequest out;
  out.programs = {&on.program};
  out.ranks.resize(ranks);
  out.host_scale = seed % 3 == 2 ? 1 : 0.1;
  if (seed % 2 == 1) out.jitter = {{Spread::Kind::lognormal, 0.1}, {Spread::Kind::normal, 0.2}, {}, {}};
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    RankTraits& traits = out.ranks[rank];
    traits.draws = mixed(seed, rank);
    traits.kernels = 1 + 0.01 * static_cast<double>(mixed(seed, rank) % 30);
    traits.host = 1 + 0.1 * static_cast<double>(mixed(rank, seed) % 3);
    out.keep_meetings.push_back(rank);
  }
  out.fabric = {&collectives, kNodeGpus};
  return out;
}

}  // namespace

TEST_CASE("ranks that go ahead of rates that may change end as they do in order, to the nanosecond") {
  for (const auto& [leaf, over, replicate, dragonfly] :
       {std::tuple{2U, 2.0, 4U, false}, {4U, 4.0, 2U, false}, {3U, 3.0, 4U, false}, {2U, 2.0, 4U, true}}) {
    OnFabric on = play_on_leaves(leaf, over, replicate, dragonfly);
    const ModelledCollectives prices(on.machine);
    for (unsigned seed = 0; seed < 12; ++seed) {
      on.machine.launch_queue = std::array<std::uint32_t, 3>{1024, 7, 0}[seed % 3];
      CAPTURE(leaf, replicate, dragonfly, seed);
      JobRequest request = unlike(on, 16, seed, prices);
      if (seed % 4 == 2)
        request.fabric.flaps = {{{FlappingLink::Kind::adapter, 1, 0, {300'000}, {2'000'000}, 0.25}, {}}};
      if (seed % 4 == 3) request.ranks[5].dead_from = 2;
      const bool to_the_end = seed % 5 != 4;
      if (!to_the_end) request.last_step = 1;
      const Job is = simulate_job(on.machine, request);
      CHECK(is.paced);
      request.ahead = false;
      request.short_ways = seed % 2 == 1;
      same(is, simulate_job(on.machine, request), to_the_end);
    }
  }
}

TEST_CASE("ranks that go ahead of rates do the same on any number of threads") {
  const OnFabric on = play_on_leaves(4, 4, 2, false, 64);
  const ModelledCollectives prices(on.machine);
  JobRequest request = unlike(on, 128, 1, prices);
  request.ahead = false;
  const Job in_order = simulate_job(on.machine, request);
  request.ahead = true;
  for (const unsigned threads : {1U, 2U, 3U}) {
    request.threads = threads;
    CAPTURE(threads);
    same(simulate_job(on.machine, request), in_order, true);
  }
}

}  // namespace foreshard::sim

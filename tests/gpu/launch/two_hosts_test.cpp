// Two hosts on this one: network name spaces joined by a cable (a pair of virtual interfaces), two ranks on each with
// the variables that torchrun sets. Skipped without root and iproute2.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "tests/catch.hpp"
#include "tests/gpu/launch/launched_runs.hpp"

using namespace foreshard;
using namespace foreshard::gpu;
using namespace foreshard::gpu::testing;

namespace {

constexpr std::uint32_t kRanks = 4, kOfHost = 2;

bool shell(const std::string& command) {
  return std::system(("(" + command + ") 2>/dev/null").c_str()) == 0;
}

class TwoHosts {
 public:
  TwoHosts() {
    for (std::size_t i = 0; i < 2; ++i) there_ = shell("ip netns add " + host(i)) && there_;
    there_ =
        there_ && shell(fmt::format("ip link add cable netns {} type veth peer name cable netns {}", host(0), host(1)));
    for (std::size_t i = 0; i < 2; ++i)
      there_ = there_ && shell(fmt::format("ip -n {0} addr add {1}/24 dev cable && ip -n {0} link set cable up && "
                                           "ip -n {0} link set lo up",
                                           host(i), address(i)));
  }
  ~TwoHosts() {
    for (std::size_t i = 0; i < 2; ++i) shell("ip netns del " + host(i));
  }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  [[nodiscard]] bool there() const { return there_; }
  void pull_cable() const { CHECK(shell(fmt::format("ip -n {} link set cable down", host(1)))); }

  /// Two ranks on each, the host's numbers consecutive.
  [[nodiscard]] std::vector<Process> start(const std::string& fault, const std::string& victim,
                                           const std::string& secret_of_host_1) const {
    std::vector<Process> out;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      const std::size_t at = rank / kOfHost;
      Variables variables = process_variables();
      variables["RANK"] = std::to_string(rank);
      variables["WORLD_SIZE"] = std::to_string(kRanks);
      variables["LOCAL_RANK"] = std::to_string(rank % kOfHost);
      variables["LOCAL_WORLD_SIZE"] = std::to_string(kOfHost);
      variables["MASTER_ADDR"] = address(0);
      variables["MASTER_PORT"] = "29500";
      variables["FORESHARD_SECRET"] = at == 0 ? kSecret : secret_of_host_1;
      auto process = start_process({"ip", "netns", "exec", host(at), FORESHARD_LAUNCH_WORKER, fault, victim,
                                    "join=4000", "silence=2000", "grace=2000"},
                                   variables, false);
      REQUIRE(process);
      out.push_back(std::move(*process));
    }
    return out;
  }

  static constexpr auto kSecret = "a secret of two hosts";

 private:
  /// By this process, so that two tests at a time are not in each other's way.
  [[nodiscard]] static std::string host(std::size_t i) { return fmt::format("foreshard-{}-{}", ::getpid(), i); }
  [[nodiscard]] static std::string address(std::size_t i) { return fmt::format("10.213.7.{}", i + 1); }

  bool there_ = true;
};

/// All ranks but the victim ended with `kind`, in time; nothing is left.
void check_ended(const Finished& run, ErrorKind kind, std::uint32_t victim) {
  for (std::uint32_t rank = 0; rank < kRanks; ++rank)
    if (rank != victim) CHECK(run.end.ranks[rank].status == static_cast<int>(kind));
  CHECK(run.seconds < 10);
  CHECK(run.nothing_left());
}

}  // namespace

TEST_CASE("ranks on two hosts: they meet, and a death, a lack of memory and a pulled cable end all of them") {
  const TwoHosts hosts;
  if (!hosts.there()) FORESHARD_SKIP("no network name spaces can be made here (root, iproute2)");
  const auto finish = [](std::vector<Process> processes) { return wait_for(processes, std::chrono::seconds(12)); };
  const auto pulled = [&](std::vector<Process> processes) {
    std::this_thread::sleep_for(Milliseconds(1500));
    hosts.pull_cable();
    return finish(std::move(processes));
  };
  {
    const Finished run = finish(hosts.start("none", "0", TwoHosts::kSecret));
    INFO(run.text());
    for (const RankEnd& end : run.end.ranks) CHECK(end.status == 0);
  }
  {
    const Finished run = finish(hosts.start("kill", "3", TwoHosts::kSecret));
    INFO(run.text());
    check_ended(run, ErrorKind::rank_lost, 3);
    for (const std::uint32_t rank : {0U, 1U, 2U})
      CHECK(run.said(rank, "rank 3 died: its connection closed; its last operation: step 5, the middle"));
  }
  {
    const Finished run = finish(hosts.start("memory", "2", TwoHosts::kSecret));
    INFO(run.text());
    check_ended(run, ErrorKind::out_of_memory, kRanks);
    CHECK(run.said(1, "rank 2 failed: no room for 1 GiB"));
  }
  {
    const Finished run = finish(hosts.start("none", "0", "another secret, of one host"));
    INFO(run.text());
    check_ended(run, ErrorKind::rendezvous, kRanks);
    CHECK(run.said(1, "rank 2 did not come to the rendezvous"));
    CHECK(run.said(1, "it does not know the run's secret"));
    CHECK(run.said(3, "it does not take this rank's proof of the secret"));
  }
  {
    const Finished run = pulled(hosts.start("hang", "1", TwoHosts::kSecret));
    INFO(run.text());
    check_ended(run, ErrorKind::rank_hung, kRanks);
    for (const std::uint32_t rank : {0U, 1U})
      CHECK((run.said(rank, "rank 2 has not been heard of") || run.said(rank, "rank 3 has not been heard of")));
    for (const std::uint32_t rank : {2U, 3U}) CHECK(run.said(rank, "rank 0 has not been heard of"));
  }
}

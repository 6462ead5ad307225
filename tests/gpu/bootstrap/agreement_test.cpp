#include "gpu/bootstrap/agreement.hpp"

#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::gpu;

namespace {

std::vector<Hello> run_of(std::uint32_t hosts, std::uint32_t local) {
  std::vector<Hello> out;
  for (std::uint32_t rank = 0; rank < hosts * local; ++rank)
    out.push_back({rank,
                   hosts * local,
                   rank % local,
                   local,
                   "host" + std::to_string(rank / local),
                   1,
                   {{"--batch", "2"}, {"--seq", "4096"}}});
  return out;
}

}  // namespace

TEST_CASE("ranks that agree") {
  CHECK_FALSE(first_disagreement(run_of(2, 4)));
  CHECK_FALSE(first_disagreement(run_of(1, 1)));
}

TEST_CASE("the rank that departs from the most is named, with the first key that differs") {
  auto hellos = run_of(1, 4);
  hellos[2].settings[1].value = "512";
  CHECK(first_disagreement(hellos)->text() ==
        "rank 2 was started with other settings: --seq is '512' there and '4096' at rank 0");
  hellos = run_of(1, 4);
  hellos[0].settings[0].value = "8";  // rank 0 is the odd one
  CHECK(first_disagreement(hellos)->text() ==
        "rank 0 was started with other settings: --batch is '8' there and '2' at rank 1");
  hellos = run_of(1, 2);  // one against one: rank 0 is right
  hellos[1].settings.pop_back();
  CHECK(first_disagreement(hellos)->text() ==
        "rank 1 was started with other settings: --seq is not set there and '4096' at rank 0");
  hellos = run_of(1, 2);
  hellos[1].settings.push_back({"--offload", "true"});
  CHECK(first_disagreement(hellos)->text().find("--offload is 'true' there and not set at rank 0") !=
        std::string::npos);
}

TEST_CASE("ranks of a host are consecutive and know it") {
  auto hellos = run_of(2, 2);
  hellos[1].host = "elsewhere";
  CHECK(first_disagreement(hellos)->rank == 1U);
  hellos = run_of(2, 2);
  hellos[3].local_ranks = 1;
  hellos[3].local_rank = 0;
  CHECK_FALSE(check_numbers(hellos[3], 4));
  hellos[2].local_ranks = 3;
  CHECK(check_numbers(hellos[2], 4));
}

TEST_CASE("a rank's own numbers") {
  CHECK_FALSE(check_numbers({1, 2, 1, 2, "", 0, {}}, 2));
  CHECK(check_numbers({1, 3, 1, 2, "", 0, {}}, 2)->text().find("one of 3 ranks, not 2") != std::string::npos);
  CHECK(check_numbers({2, 2, 1, 2, "", 0, {}}, 2));
  CHECK(check_numbers({0, 2, 1, 2, "", 0, {}}, 2));
  CHECK(check_numbers({1, 2, 1, 0xffffffff, "", 0, {}}, 2));
  CHECK(check_numbers({0xffffffff, 2, 0xffffffff, 0xffffffff, "", 0, {}}, 2));
}

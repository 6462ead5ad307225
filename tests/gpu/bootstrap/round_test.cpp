#include "gpu/bootstrap/round.hpp"

#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::gpu;

TEST_CASE("shares come in any order and go out by rank") {
  Round round(3);
  for (std::uint64_t sequence = 0; sequence < 3; ++sequence) {
    for (const std::uint32_t rank : {2U, 0U, 1U}) {
      CHECK_FALSE(round.complete());
      CHECK_FALSE(round.enter(rank, {sequence, "x", std::string(rank, 'a')}));
    }
    CHECK(round.complete());
    const Gathered out = round.take();
    CHECK(out.sequence == sequence);
    CHECK(out.bytes == std::vector<std::string>{"", "a", "aa"});
  }
}

TEST_CASE("ranks that ask for different calls") {
  Round round(3);
  CHECK_FALSE(round.enter(1, {0, "NCCL id", ""}));
  CHECK(round.enter(0, {0, "weights", ""})->text() ==
        "rank 0 asks for 'weights' where rank 1 asks for 'NCCL id'; its last operation: weights");
  CHECK(round.enter(1, {0, "NCCL id", ""})->kind == ErrorKind::mismatch);  // twice
  CHECK(round.enter(2, {1, "NCCL id", ""})->text().find("comes to collective call 1, the others are at 0") !=
        std::string::npos);
}

TEST_CASE("a share that is too large") {
  Round round(2);
  CHECK(round.enter(0, {0, "x", std::string(kMaxShareBytes + 1, 'a')})->text().find("too much") != std::string::npos);
}

// Process groups as traces write them.
#include "traces/infer/process_groups.hpp"

#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::traces;

TEST_CASE("a process group has its description's name and the distance of its ranks") {
  const std::vector<TraceCommunicator> communicators{{"0", "default_pg", "[0, 1, 2, 3]", 4},
                                                     {"4314d7", "mesh_dp", "[0, 2]", 2},
                                                     {"77aa", "", "[3, 11, 19, ...]", 64},
                                                     {"1", "undefined", "[0, 1]", 2},
                                                     {"", "alone", "[5]", 1},
                                                     {"x", "odd", "[, 99999999999999, -1, nonsense", 2},
                                                     {"y", "falls", "[7, 3]", 2}};
  CHECK(process_groups_of(communicators) == std::vector<ProcessGroup>{{"default_pg", 4, 1},
                                                                      {"mesh_dp", 2, 2},
                                                                      {"group 77aa", 64, 8},
                                                                      {"group 1", 2, 1},
                                                                      {"alone", 1, 1},
                                                                      {"odd", 2, 1},
                                                                      {"falls", 2, 1}});
}

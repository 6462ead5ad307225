// The built-in profile against what it was made of: FORESHARD_TRUTH names the folder of the reference runs.
#include <algorithm>

#include "sim/calibrate/fit_machine.hpp"
#include "sim/machine/profile.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/truth_folder.hpp"

namespace foreshard::sim {
namespace {

TEST_CASE("the reference probe files give h200's collective tables back") {
  const auto folder = test::truth_folder("collectives");
  if (!folder) FORESHARD_SKIP(test::kNoTruth);
  std::vector<Measurements> inputs;
  for (const char* file :
       {"comm_nccl_2.json", "comm_nccl_4.json", "comm_nccl-symm_4.json", "comm_nccl-zero-cta_4.json", "limits.json"}) {
    auto read = read_measurements(test::file_bytes(*folder + "/" + file), file);
    if (!read) FAIL(read.error().text());
    read->path = file;
    inputs.push_back(*read);
  }
  const auto made = fit_machine(inputs, {"mine", "h200", {}});
  if (!made) FAIL(made.error().text());
  const MachineFit& fit = *made;
  const MachineProfile profile = *parse_profile(fit.json, "mine.json");
  const MachineProfile built_in = *builtin_profile("h200");
  std::size_t same = 0;
  for (const CollectiveTable& table : built_in.collectives) {
    if (table.held_out) continue;  // of 8 ranks: not among these files
    const auto it = std::find_if(profile.collectives.begin(), profile.collectives.end(), [&](const auto& other) {
      return other.kind == table.kind && other.transport == table.transport && other.ranks == table.ranks;
    });
    REQUIRE(it != profile.collectives.end());                // those of the base stay
    if (table.kind >= CollectiveKind::all_reduce) continue;  // not in the probe files
    REQUIRE(it->points.size() == table.points.size());
    for (std::size_t i = 0; i < table.points.size(); ++i) {
      CHECK(it->points[i].bytes == table.points[i].bytes);
      CHECK(it->points[i].time.us() == Approx(table.points[i].time.us()).epsilon(1e-4));
    }
    ++same;
  }
  CHECK(same == 8);
  CHECK(profile.rates.gemm_bf16 == built_in.rates.gemm_bf16);
  CHECK(profile.rates.hbm == built_in.rates.hbm);
}

}  // namespace
}  // namespace foreshard::sim

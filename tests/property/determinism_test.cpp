// The same plan twice, alone or beside others, gives the same bytes in its store.
#include <filesystem>
#include <thread>

#include "sim/predict/predict.hpp"
#include "tests/property/timed_workload.hpp"
#include "tests/temporary_folder.hpp"
#include "traces/store/store.hpp"

namespace foreshard::test {
namespace {

namespace fs = std::filesystem;

/// The bytes of the store of a plan; empty where anything failed.
std::string planned_bytes(const Workload& workload, const Settings& settings, const fs::path& file) {
  const auto machine = sim::builtin_profile("h200");
  if (!machine) return {};
  const auto p = sim::predict(workload, *machine, {settings, {}, 4});
  if (!p || !traces::write_run(p->run, file.string(), {true})) return {};
  return file_bytes(file);
}

TEST_CASE("a plan made twice is the same file") {
  const TemporaryFolder folder;
  const bool holds = rc::check("two plans, one file", [&] {
    const Workload w = timed_workload(random_settings(), *rc::gen::inRange(1U, 5U), *rc::gen::element(0.0, 3.0, 30.0));
    const Settings wanted = random_settings();
    const std::string first = planned_bytes(w, wanted, folder.path() / "a.db");
    RC_ASSERT(!first.empty());
    RC_ASSERT(first == planned_bytes(w, wanted, folder.path() / "b.db"));
  });
  CHECK(holds);
}

TEST_CASE("plans made in four threads at once are the files that each makes alone") {
  const TemporaryFolder folder;
  std::vector<Settings> wanted(4, four_gpus());
  for (Settings& s : wanted) {
    s.param_dtype = DType::bfloat16;
    s.reduce_dtype = DType::float32;
  }
  wanted[1].forward_prefetch = 2;
  wanted[2].reshard_after_forward = {Reshard::Kind::never, 0};
  wanted[3].release = Release::record_stream;
  const Workload w = timed_workload(wanted[0], 4, 3);
  std::vector<std::string> one_by_one;
  for (std::size_t i = 0; i < 4; ++i)
    one_by_one.push_back(planned_bytes(w, wanted[i], folder.path() / fmt::format("alone{}", i)));
  std::vector<std::string> together(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i)
    threads.emplace_back(
        [&, i] { together[i] = planned_bytes(w, wanted[i], folder.path() / fmt::format("thread{}", i)); });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK_FALSE(one_by_one[i].empty());
    CHECK(together[i] == one_by_one[i]);
  }
  CHECK(one_by_one[0] != one_by_one[1]);
}

}  // namespace
}  // namespace foreshard::test

// Which files of a folder are the recording: frameworks' names, ranks, steps, and what is no recording.
#include "traces/folder/recording_folder.hpp"

#include <array>
#include <filesystem>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace foreshard;
using namespace foreshard::traces;

namespace {

RecordingFiles listing(const std::vector<std::string>& paths) {
  RecordingFiles out;
  for (const std::string& path : paths)
    if (auto file = recording_file(path)) out.files.push_back(*file);
  return out;
}

/// snapshot | trace | about, or the error's text.
std::string chosen(const std::vector<std::string>& paths, const WantedRecording& wanted = {}) {
  const auto found = choose_recording("d", listing(paths), wanted);
  return found ? found->snapshot + " | " + found->trace + " | " + found->about : found.error().text();
}

std::string facts(std::string_view path) {
  const auto file = recording_file(path);
  if (!file) return "none";
  constexpr std::array<const char*, 5> kNames{"snapshot", "trace", "about", "config", "log"};
  std::string out = kNames[static_cast<std::size_t>(file->kind)];
  if (file->rank) out += " rank " + std::to_string(*file->rank);
  if (file->step) out += " step " + std::to_string(*file->step);
  return out;
}

const std::vector<std::string> kTitan{
    "config.json",
    "comm_traces/rank_0.json",
    "profiling/memory_snapshot/step_000000000010/000000_step_10.pickle",
    "profiling/memory_snapshot/step_000000000010/000001_step_10.pickle",
    "profiling/memory_snapshot/step_000000000020/000000_step_20.pickle",
    "profiling/memory_snapshot/step_000000000020/000001_step_20.pickle",
    "profiling/traces/iteration_10/rank0_trace.json.gz",
    "profiling/traces/iteration_10/rank1_trace.json.gz",
    "profiling/traces/iteration_20/rank0_trace.json.gz",
    "profiling/traces/iteration_20/rank1_trace.json.gz",
};

}  // namespace

TEST_CASE("names say what a file is, of which rank and step") {
  CHECK(facts("rank00003/snapshot.pickle.gz") == "snapshot rank 3");
  CHECK(facts("rank00003/trace.json.gz") == "trace rank 3");
  CHECK(facts("rank00003/rank.json") == "none");
  CHECK(facts("about.json") == "about");
  CHECK(facts("l1b.about.json") == "about");
  CHECK(facts(kTitan[0]) == "config");
  CHECK(facts(kTitan[1]) == "none");
  CHECK(facts(kTitan[3]) == "snapshot rank 1 step 10");
  CHECK(facts("memory_snapshot/step_000000000007_exit/000002_step_7.pickle") == "snapshot rank 2 step 7");
  CHECK(facts(kTitan[7]) == "trace rank 1 step 10");
  CHECK(facts("profile_12.json") == "trace rank 12");
  CHECK(facts("profiler_trace.json") == "trace");
  CHECK(facts("snapshot.pickle") == "snapshot");
  CHECK(facts("actor_step5_rank3-of-8_1700.json.gz") == "trace rank 3 step 5");
  CHECK(facts("update_rank7_pid123.pickle") == "snapshot rank 7");
  CHECK(facts("host_1234.1700000000.pt.trace.json") == "trace");
  CHECK(facts("run/attempt_0/1/stdout.log") == "log");
  CHECK(facts("model.safetensors") == "none");
  CHECK(facts("tokenizer.json") == "none");
  CHECK(facts("") == "none");
  CHECK(facts("rank99999999999999999999/trace.json") == "trace");  // no such rank
  CHECK(facts(std::string(100'000, 'r') + "rank.trace.json") == "trace");
}

TEST_CASE("the recorder's folder is one recording") {
  CHECK(chosen({"about.json", "rank00000/snapshot.pickle.gz", "rank00000/trace.json.gz", "rank00001/trace.json.gz"}) ==
        "d/rank00000/snapshot.pickle.gz | d/rank00000/trace.json.gz | d/about.json");
}

TEST_CASE("torchtitan's outputs: the last step of the lowest rank, or the ones that are asked for") {
  CHECK(chosen(kTitan) == "d/" + kTitan[4] + " | d/" + kTitan[8] + " | ");
  CHECK(chosen(kTitan, {.rank = 1, .step = 10}) == "d/" + kTitan[3] + " | d/" + kTitan[7] + " | ");
  CHECK(chosen(kTitan, {.rank = 2, .step = {}}) == "d: has no file of rank 2\n  hint: its ranks: 0, 1");
  CHECK(chosen(kTitan, {.rank = {}, .step = 15}) == "d: has no recording of step 15\n  hint: its steps: 10, 20");
  const auto found = choose_recording("d", listing(kTitan), {});
  REQUIRE(found);
  CHECK(found->notes ==
        std::vector<std::string>{"rank 0 of ranks 0, 1; --rank all takes all", "step 20 of steps 10, 20"});
}

TEST_CASE("profiler and snapshot of different steps are taken together, and said") {
  const auto found = choose_recording("d", listing({kTitan[2], kTitan[8]}), {});
  REQUIRE(found);
  CHECK(found->trace == "d/" + kTitan[8]);
  CHECK(found->notes == std::vector<std::string>{"the snapshot is of step 10, the trace of step 20"});
}

TEST_CASE("files without a rank are whichever rank's") {
  const auto found = choose_recording("d", listing({"snapshot.pickle", "profiler_trace.json"}), {});
  REQUIRE(found);
  CHECK(found->snapshot == "d/snapshot.pickle");
  CHECK(found->notes.size() == 1);
}

TEST_CASE("what nothing tells apart, and what is no recording, is an error with names") {
  CHECK(chosen({"a.pickle", "b.pickle"}).starts_with("d: has several files that would do: a.pickle, b.pickle"));
  CHECK(chosen({"config.json", "model.bin"}).starts_with("d: has neither a memory snapshot nor a profiler trace"));
}

TEST_CASE("links are not followed, and too many entries end the search") {
  const test::TemporaryFolder folder;
  namespace fs = std::filesystem;
  fs::create_directories(folder.path() / "rank00000");
  test::write_file(folder.path() / "rank00000/snapshot.pickle", "x");
  fs::create_directory_symlink("/", folder.path() / "root");
  fs::create_symlink("/etc/passwd", folder.path() / "trace.json");
  fs::path deep = folder.path();
  for (int i = 0; i < 12; ++i) deep /= "d";
  fs::create_directories(deep);
  test::write_file(deep / "snapshot.pickle", "x");
  const auto found = recording_files(folder.path().string());
  REQUIRE(found);
  REQUIRE(found->files.size() == 1);
  CHECK(found->files[0].path == "rank00000/snapshot.pickle");
  CHECK(found->links == 2);
  CHECK(found->unread == 1);
  const auto many = recording_files(folder.path().string(), 12);
  REQUIRE_FALSE(many);
  CHECK(many.error().what == "has more than 12 entries");
  CHECK_FALSE(recording_files((folder.path() / "nowhere").string()));
}

TEST_CASE("every rank's trace of a step, and a snapshot that does not say whose it is") {
  const auto titan = choose_recording("d", listing(kTitan), {.rank = {}, .step = 10, .all_ranks = true});
  REQUIRE(titan);
  CHECK(titan->trace == "d/" + kTitan[6]);
  CHECK(titan->rank_traces == std::vector<std::string>{"d/" + kTitan[7]});
  CHECK(titan->notes == std::vector<std::string>{"step 10 of steps 10, 20"});
  const std::vector<std::string> plain{"l.pickle", "l.rank2.trace.json", "l.rank10.trace.json", "l.rank0.trace.json"};
  const auto found = choose_recording("d", listing(plain), {.rank = 2, .step = {}, .all_ranks = true});
  REQUIRE(found);
  CHECK(found->snapshot == "d/l.pickle");
  CHECK(found->trace == "d/l.rank2.trace.json");
  CHECK(found->rank_traces == std::vector<std::string>{"d/l.rank0.trace.json", "d/l.rank10.trace.json"});
  const auto twice = choose_recording("d", listing({"a.rank0.trace.json", "a.rank1.trace.json", "b.rank1.trace.json"}),
                                      {.rank = {}, .step = {}, .all_ranks = true});
  REQUIRE_FALSE(twice);
  CHECK(twice.error().what == "has several files that would do: a.rank1.trace.json, b.rank1.trace.json");
}

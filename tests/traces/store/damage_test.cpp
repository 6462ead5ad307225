// What happens when a store is cut short, foreign, damaged or never finished.
#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <string>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/traces/store/run_sample.hpp"
#include "traces/store/query.hpp"
#include "traces/store/schema.hpp"
#include "traces/store/seal.hpp"
#include "traces/store/sqlite.hpp"
#include "traces/store/store.hpp"

namespace foreshard::traces {
namespace {

using foreshard::test::file_bytes;
using foreshard::test::write_file;
using test::full_run;
using test::path_of;

/// A run whose store has a few hundred pages.
Run large_run() {
  Run run = full_run();
  run.device_ops.resize(5000, run.device_ops[0]);
  run.allocator.resize(5000, run.allocator[0]);
  return run;
}

/// A good store at this name, changed by SQL that no foreshard would run.
std::string tampered(const std::string& name, const std::string& sql) {
  const std::string path = path_of(name);
  REQUIRE(write_run(full_run(), path, {.force = true}));
  sqlite3* raw = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &raw) == SQLITE_OK);
  const int code = sqlite3_exec(raw, sql.c_str(), nullptr, nullptr, nullptr);
  INFO(sql << ": " << sqlite3_errmsg(raw));
  CHECK(code == SQLITE_OK);
  sqlite3_close(raw);
  test::seal_again(path);
  return path;
}

/// Both readers refuse the file, naming it and with these words.
void check_refused(const std::string& path, const std::string& words) {
  const Result<Run> read = read_run(path);
  INFO(path);
  REQUIRE(!read);
  INFO(read.error().text());
  CHECK(read.error().kind == ErrorKind::input);
  CHECK(read.error().where == path);
  CHECK(read.error().what.find(words) != std::string::npos);
}

std::vector<std::string> files_beside(const std::string& directory) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) out.push_back(entry.path().filename());
  return out;
}

/// Runs write_run in a process that may not write files longer than `bytes`; beyond that the kernel kills
/// it (`killed`) or its writes fail as on a full disk. Returns waitpid's status.
int write_with_limit(const Run& run, const std::string& path, rlim_t bytes, bool killed) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit core{0, 0};
    ::setrlimit(RLIMIT_CORE, &core);
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, killed ? SIG_DFL : SIG_IGN);
    const auto written = write_run(run, path, {.force = true});
    ::_exit(written ? 0 : written.error().kind == ErrorKind::input ? 1 : 2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST_CASE("a writer killed at any point leaves nothing under the final name", "[store]") {
  const Run run = large_run();
  const std::string directory = path_of("killed");
  std::filesystem::create_directory(directory);
  REQUIRE(write_run(run, directory + "/whole.db"));
  const auto whole = std::filesystem::file_size(directory + "/whole.db");
  for (rlim_t limit = 0; limit < whole; limit += whole / 23) {
    INFO(limit << " of " << whole);
    const std::string path = directory + "/run.db";
    CHECK(WIFSIGNALED(write_with_limit(run, path, limit, true)));
    CHECK_FALSE(std::filesystem::exists(path));
  }
  // What the killed writers left is no store either.
  for (const std::string& name : files_beside(directory))
    if (name != "whole.db") CHECK(!read_run(directory + "/" + name));
}

TEST_CASE("on a full disk the file that was there stays", "[store]") {
  const Run run = large_run();
  const std::string directory = path_of("full");
  std::filesystem::create_directory(directory);
  const std::string path = directory + "/run.db";
  REQUIRE(write_run(full_run(), path));
  const std::string before = file_bytes(path);
  for (const rlim_t limit : {0, 1, 4096, 5000, 100'000, 300'000}) {
    INFO(limit);
    const int status = write_with_limit(run, path, limit, false);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 1);
    CHECK(file_bytes(path) == before);
    CHECK(files_beside(directory) == std::vector<std::string>{"run.db"});
  }
}

TEST_CASE("a directory that is missing or cannot be written to", "[store]") {
  for (const std::string& path : {path_of("missing/run.db"), std::string("/proc/run.db")}) {
    const auto written = write_run(full_run(), path);
    REQUIRE(!written);
    CHECK(written.error().kind == ErrorKind::input);
    CHECK(written.error().where == path);
    CHECK(written.error().hint.find("directory") != std::string::npos);
  }
  const auto directory = write_run(full_run(), path_of(""), {.force = true});
  REQUIRE(!directory);
  CHECK(directory.error().kind == ErrorKind::usage);
}

TEST_CASE("a store cut short anywhere is refused", "[store]") {
  const std::string path = path_of("whole.db");
  REQUIRE(write_run(large_run(), path, {.force = true}));
  const std::string bytes = file_bytes(path);
  const std::string cut = path_of("cut.db");
  std::vector<std::size_t> lengths{1, 15, 16, 17, 60, 99, 100, 101, 511, 512, bytes.size() - 1};
  for (std::size_t length = 4096; length < bytes.size(); length += 4096) lengths.push_back(length);
  for (const std::size_t length : lengths) {
    write_file(cut, bytes.substr(0, length));
    const Result<Run> read = read_run(cut);
    INFO(length << " of " << bytes.size());
    REQUIRE(!read);
    CHECK(read.error().kind == ErrorKind::input);
    CHECK(!query(cut, "SELECT * FROM run"));
  }
  write_file(cut, "");
  check_refused(cut, "the file is empty");
  write_file(cut, bytes.substr(0, 9));
  check_refused(cut, "cut short");
}

TEST_CASE("damaged bytes end in an answer", "[store]") {
  const std::string path = path_of("sound.db");
  REQUIRE(write_run(full_run(), path, {.force = true}));
  const std::string bytes = file_bytes(path);
  const std::string damaged = path_of("damaged.db");
  std::uint64_t state = 42;  // splitmix64: the same damage every time
  const auto next = [&state] {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  };
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    std::string copy = bytes;
    for (int flips = 0; flips < 8; ++flips) copy[next() % copy.size()] = static_cast<char>(next());
    write_file(damaged, copy);
    const Result<Run> read = read_run(damaged, {.unverified = true});
    if (!read) ++refused;
    if (!read) CHECK(read.error().kind == ErrorKind::input);
  }
  CHECK(refused > 0);
}

TEST_CASE("a flipped bit is seen, wherever it is", "[store]") {
  const std::string path = path_of("sealed.db");
  REQUIRE(write_run(full_run(), path, {.force = true}));
  const std::string bytes = file_bytes(path);
  CHECK(bytes.size() % kPageSize == kSealBytes);
  CHECK(bytes.ends_with(" \n"));
  const std::string flipped = path_of("flipped.db");
  for (std::size_t i = 0; i < bytes.size(); i += 997) {
    std::string copy = bytes;
    copy[i] = static_cast<char>(copy[i] ^ (1 << i % 8));
    write_file(flipped, copy);
    INFO(i);
    CHECK_FALSE(read_run(flipped));
    CHECK_FALSE(query(flipped, "SELECT 1"));
  }
  write_file(flipped, bytes.substr(0, bytes.size() - kSealBytes));
  check_refused(flipped, "has no checksum of its contents at its end");
  std::string other = bytes;
  other[other.size() / 2] ^= 1;
  write_file(flipped, other);
  check_refused(flipped, "its contents are not those that were written");
}

TEST_CASE("what another SQLite client left beside a store is refused by its name", "[store]") {
  const std::string path = path_of("beside.db");
  REQUIRE(write_run(full_run(), path, {.force = true}));
  for (const std::string suffix : {"-journal", "-wal"}) {
    write_file(path + suffix, "");  // what a client leaves that is done
    CHECK(read_run(path));
    write_file(path + suffix, std::string(512, '\0'));
    CHECK(read_run(path));
    write_file(path + suffix, "\xd9\xd5\x05\xf9 …");
    check_refused(path, "beside.db" + suffix + " lies beside it");
    CHECK(read_run(path, {.unverified = true}));
    CHECK(query(path, "SELECT 1", {}, {.unverified = true}));
    check_refused(path, "lies beside it");  // of one opening, and not of those after it
    std::filesystem::remove(path + suffix);
    std::filesystem::create_symlink(path + suffix, path + suffix);  // what it holds cannot be known
    CHECK_FALSE(read_run(path));
    std::filesystem::remove(path + suffix);
  }
}

TEST_CASE("what import kept for plans is read of a whole store alone", "[store]") {
  const std::string path = path_of("kept.db");
  Run run = full_run();
  run.results["kept_calibration"] = "{}";
  REQUIRE(write_run(run, path, {.force = true}));
  CHECK(read_run(path).value().results == run.results);
  const std::map<std::string, std::string> unverified = read_run(path, {.unverified = true}).value().results;
  CHECK_FALSE(unverified.contains("kept_calibration"));
  CHECK(unverified.size() + 1 == run.results.size());
}

TEST_CASE("a store from before there was a checksum is read", "[store]") {
  const std::string path = tampered("old.db", "PRAGMA user_version=3");
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - kSealBytes);
  CHECK(read_run(path).value().device_ops.size() == full_run().device_ops.size());
  CHECK(read_run(tampered("unfolded.db", "DROP TABLE rank_fold; PRAGMA user_version=4"), {.unverified = true})
            .value()
            .rank_ops.size() == full_run().rank_ops.size());
  CHECK(query(path_of("unfolded.db"), "SELECT * FROM rank_fold", {}, {.unverified = true}).value().rows.empty());
  check_refused(tampered("folded.db", "DROP TABLE rank_fold"), "the store has no column rank_fold.rank");
  write_file(path + "-wal", "\x37\x7f\x06\x82 …");
  check_refused(path, "old.db-wal lies beside it");
  std::filesystem::remove(path + "-wal");
  check_refused(tampered("older.db", "PRAGMA user_version=2"), "schema version 2, and this foreshard reads version");
}

TEST_CASE("files that are not a store of this version", "[store]") {
  check_refused(path_of("nowhere.db"), "cannot be opened");
  write_file(path_of("text.db"), "this is no database, but it is long enough to be mistaken for one");
  check_refused(path_of("text.db"), "not a SQLite file");
  check_refused(tampered("other.db", "PRAGMA application_id=1"), "another program");
  check_refused(tampered("newer.db", "PRAGMA user_version=99"),
                fmt::format("schema version 99, and this foreshard reads version {}", kSchemaVersion));
  check_refused(tampered("unfinished.db", "UPDATE run SET complete=0"), "completion mark");
  check_refused(tampered("empty.db", "DELETE FROM run"), "completion mark");
  check_refused(tampered("two.db",
                         "INSERT INTO run SELECT 1,* FROM (SELECT kind,name,foreshard_version,torch,nccl,gpu,"
                         "sm_count,machine,valid,measured,complete FROM run)"),
                "completion mark");
  check_refused(tampered("column.db", "ALTER TABLE event RENAME COLUMN kind TO sort"), "no column event.kind");
  check_refused(tampered("view.db", "ALTER TABLE event RENAME TO e; CREATE VIEW event AS SELECT * FROM e"),
                "no column event.kind");
}

TEST_CASE("values that no run can have name their place", "[store]") {
  check_refused(tampered("a.db", "UPDATE host_op SET thread=-1 WHERE id=1"), "host_op 1: thread is out of range: -1");
  check_refused(tampered("b.db", "UPDATE device_op SET kind='x'"), "device_op 0: kind has the unknown word 'x'");
  check_refused(tampered("c.db", "UPDATE segment SET small_pool=2"), "segment 0: small_pool is neither 0 nor 1");
  check_refused(tampered("d.db", "UPDATE block SET label=44 WHERE id=0"), "block 0 names label 44");
  check_refused(tampered("e.db", "UPDATE segment_block SET segment=9"), "names segment 9, of which there are 2");
  check_refused(tampered("f.db", "UPDATE parameter SET unit=9"), "not in the order of the units");
  check_refused(tampered("g.db", "UPDATE parameter SET shape='[1,]'"), "'[1,]' is not a shape");
  check_refused(tampered("h.db", "UPDATE measured SET series='x'"), "unknown series 'x'");
  check_refused(tampered("i.db", "UPDATE settings SET value='0' WHERE key='gpus'"), "settings: '0' is not a value");
  check_refused(tampered("j.db", "UPDATE label SET text='same'"), "duplicate label 'same'");
}

TEST_CASE("times that cannot be added or subtracted are refused with their table and row", "[store]") {
  check_refused(tampered("free.db", "UPDATE allocator_event SET ts=-1000 WHERE id=1"),
                "allocator_event 1 lies 1099 ns before allocator_event 0");
  check_refused(tampered("far.db", "UPDATE device_op SET ts=9223372036854775807 WHERE id=1"), "device_op 1 has times");
  check_refused(tampered("long.db", "UPDATE host_op SET dur=9223372036854775807 WHERE id=0"), "host_op 0 has times");
  check_refused(tampered("step.db", "UPDATE step SET dur=-1 WHERE id=0"), "step 0 has times");
  Run run = full_run();
  run.allocator[1].time = run.allocator[0].time - Nanoseconds{1};
  const std::string path = path_of("unwritten.db");
  const auto written = write_run(run, path);
  REQUIRE_FALSE(written);
  CHECK(written.error().kind == ErrorKind::mismatch);
  CHECK(written.error().where == path);
  CHECK_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace foreshard::traces

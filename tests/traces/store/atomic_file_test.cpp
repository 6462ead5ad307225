// Where a file may appear, and what is left when it does not.
#include "traces/store/atomic_file.hpp"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <set>
#include <vector>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace foreshard::traces {
namespace {

using foreshard::test::file_bytes;
using foreshard::test::TemporaryFolder;
using foreshard::test::write_file;

std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) out.insert(entry.path().filename());
  return out;
}

TEST_CASE("devices, FIFOs, folders and links to nothing are refused, whatever may be replaced", "[store]") {
  const TemporaryFolder folder;
  const std::string fifo = folder.file("fifo"), link = folder.file("dangling"), below = folder.file("folder");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  std::filesystem::create_symlink(folder.file("nothing"), link);
  std::filesystem::create_directory(below);
  for (const std::string& path : {fifo, link, below, std::string("/dev/null"), std::string()})
    for (const bool replace : {false, true}) {
      INFO(path << replace);
      const auto file = AtomicFile::create(path, replace);
      REQUIRE_FALSE(file);
      CHECK(file.error().kind == ErrorKind::usage);
    }
  CHECK(std::filesystem::is_fifo(fifo));
  CHECK(std::filesystem::is_symlink(link));
  const auto nowhere = AtomicFile::create(folder.file("no/such/x.db"), false);
  REQUIRE_FALSE(nowhere);
  CHECK(nowhere.error().kind == ErrorKind::input);
  CHECK(may_create(folder.file("x.db"), false));
}

TEST_CASE("a file that a link leads to is replaced, and the link stays", "[store]") {
  const TemporaryFolder folder;
  const std::string target = folder.write("target", "old"), link = folder.file("link");
  std::filesystem::create_symlink("target", link);
  CHECK_FALSE(AtomicFile::create(link, false));
  auto file = AtomicFile::create(link, true);
  REQUIRE(file);
  write_file(file->temporary_path(), "new");
  REQUIRE(file->commit());
  CHECK(std::filesystem::is_symlink(link));
  CHECK(file_bytes(target) == "new");
}

TEST_CASE("the name of a temporary file cannot be foreseen", "[store]") {
  const TemporaryFolder folder;
  std::set<std::string> names;
  for (int i = 0; i < 20; ++i) {
    const auto file = AtomicFile::create(folder.file("x"), false);
    REQUIRE(file);
    names.insert(file->temporary_path());
  }
  CHECK(names.size() == 20);
  CHECK(names_in(folder.path()).empty());
}

TEST_CASE("a process that is interrupted leaves neither files nor folders", "[store]") {
  const TemporaryFolder folder;
  folder.write("mine.csv", "kept");
  std::array<int, 2> ready{};
  REQUIRE(::pipe(ready.data()) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGTERM, [](int) {
      remove_partial_files();
      _exit(7);
    });
    auto store = AtomicFile::create(folder.file("o.db"), false);
    auto tables = AtomicFolder::create(folder.file("new/tables"), false, {"block.csv", "step.csv"});
    write_file(tables->temporary_path() + "/block.csv", "half");
    if (store && tables && ::write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) ::pause();
  }
  char begun = 0;
  REQUIRE(::read(ready[0], &begun, 1) == 1);
  CHECK(names_in(folder.path()).size() == 3);  // the store, a file of mine, and new
  ::kill(child, SIGTERM);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 7);
  CHECK(names_in(folder.path()) == std::set<std::string>{"mine.csv"});
}

TEST_CASE("a new folder goes unless it is kept; one that was there stays", "[store]") {
  const TemporaryFolder folder;
  { CHECK(NewFolder::create(folder.file("a/b"))); }
  CHECK_FALSE(std::filesystem::exists(folder.file("a/b")));
  {
    auto made = NewFolder::create(folder.file("c"));
    REQUIRE(made);
    made->keep();
  }
  { CHECK(NewFolder::create(folder.file("c"))); }
  CHECK(std::filesystem::is_directory(folder.file("c")));
  CHECK_FALSE(NewFolder::create(folder.write("file", "x")));
}

TEST_CASE("a folder appears with all of its files, in place of an empty one or of one like it", "[store]") {
  const TemporaryFolder folder;
  const std::string tables = folder.file("tables");
  const std::vector<std::string> names{"a.csv", "b.csv"};
  const auto write = [&](const std::string& text, bool replace) -> Result<void> {
    auto made = AtomicFolder::create(tables, replace, names);
    FORESHARD_TRY(made);
    for (const std::string& name : names) write_file(made->temporary_path() + "/" + name, text);
    return made->commit();
  };
  { CHECK(AtomicFolder::create(tables + "/", false, names)); }
  CHECK(names_in(folder.path()).empty());
  std::filesystem::create_directory(tables);
  CHECK(write("first", false));
  CHECK_FALSE(write("second", false));
  CHECK(file_bytes(tables + "/b.csv") == "first");
  std::filesystem::remove(tables + "/a.csv");
  CHECK(write("second", true));
  CHECK(names_in(folder.path()) == std::set<std::string>{"tables"});
  CHECK(names_in(tables) == std::set<std::string>{"a.csv", "b.csv"});
  CHECK(file_bytes(tables + "/b.csv") == "second");
  write_file(tables + "/mine.txt", "kept");
  const auto refused = write("third", true);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what.find("mine.txt") != std::string::npos);
  CHECK(file_bytes(tables + "/b.csv") == "second");
  CHECK(AtomicFolder::create(".", true, names).error().kind == ErrorKind::usage);
  CHECK(AtomicFolder::create(folder.write("file", "x"), true, names).error().kind == ErrorKind::usage);
  CHECK(names_in(folder.path()) == std::set<std::string>{"file", "tables"});
}

TEST_CASE("a folder whose files are not all there does not appear, nor do its parents", "[store]") {
  const TemporaryFolder folder;
  {
    auto made = AtomicFolder::create(folder.file("new/tables"), false, {"a.csv", "b.csv"});
    REQUIRE(made);
    write_file(made->temporary_path() + "/a.csv", "x");
    CHECK_FALSE(made->commit());
  }
  CHECK(names_in(folder.path()).empty());
}

}  // namespace
}  // namespace foreshard::traces

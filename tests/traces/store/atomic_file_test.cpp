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
    auto tables = NewFolder::create(folder.file("tables"));
    auto table = AtomicFile::create(folder.file("tables/block.csv"), false);
    if (store && tables && table && ::write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) ::pause();
  }
  char begun = 0;
  REQUIRE(::read(ready[0], &begun, 1) == 1);
  CHECK(names_in(folder.path()).size() == 3);
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

}  // namespace
}  // namespace foreshard::traces

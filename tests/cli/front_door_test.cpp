#include "cli/front_door.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <set>

#include "cli/verbs/verbs.hpp"
#include "tests/catch.hpp"
#include "tests/cli/run_cli.hpp"
#include "tests/temporary_folder.hpp"

using namespace foreshard::cli;

TEST_CASE("help goes to stdout and begins with examples; nothing at all is wrong usage") {
  const Answer help = run_cli({"--help"});
  CHECK(help.status == kDone);
  CHECK(help.out.starts_with("examples:\n  foreshard "));
  CHECK(help.err.empty());
  const Answer nothing = run_cli({});
  CHECK(nothing.status == 2);
  CHECK(nothing.out.empty());
  CHECK(run_cli({"--version"}).out.starts_with("foreshard "));
}

TEST_CASE("each verb's help begins with two examples that name it") {
  std::set<std::string_view> names;
  for (const Verb& verb : verbs()) {
    INFO(verb.name);
    CHECK(names.insert(verb.name).second);
    for (const std::string_view example : verb.examples) CHECK(example.starts_with(std::string(verb.name) + " "));
    const Answer help = run_cli({std::string(verb.name), "--help"});
    CHECK(help.status == kDone);
    CHECK(help.out.starts_with("examples:\n  foreshard " + std::string(verb.name)));
    CHECK(help.out.find("--quiet") != std::string::npos);
  }
}

TEST_CASE("unknown verbs and options get a suggestion and status 2") {
  const Answer verb = run_cli({"comapre", "a", "b"});
  CHECK(verb.status == 2);
  CHECK(verb.err == "error: unknown verb 'comapre'\n  hint: did you mean 'compare'?\n");
  const Answer option = run_cli({"query", "--jsno", "a.db", "SELECT 1"});
  CHECK(option.status == 2);
  CHECK(option.err == "error: unknown option '--jsno' of query\n  hint: did you mean '--json'?\n");
  CHECK(option.out.empty());
}

TEST_CASE("what CLI11 refuses is wrong usage too: its own exit codes never leave") {
  CHECK(run_cli({"query"}).status == 2);
  CHECK(run_cli({"compare", "a"}).status == 2);
  CHECK(run_cli({"query", "a", "b", "c"}).status == 2);
  CHECK(run_cli({"query", "a", "SELECT 1", "--json", "--csv"}).status == 2);
}

TEST_CASE("files that are not there are wrong input, with their name") {
  const Answer answer = run_cli({"query", "/nonexistent/run.db", "SELECT 1"});
  CHECK(answer.status == 3);
  CHECK(answer.err.find("/nonexistent/run.db") != std::string::npos);
  CHECK(answer.out.empty());
}

TEST_CASE("an output has a name, and is no input") {
  const foreshard::test::TemporaryFolder folder;
  const std::string a = folder.write("a.db", "x"), b = folder.file("b.html");
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"plan", "mlp", "--gpus", "4", "-o", ""},
                                             {"sweep", "mlp", "--gpus", "4", "--csv", ""},
                                             {"compare", a, a, "-o", ""},
                                             {"import", "--snapshot", a, "-o", a, "--force"},
                                             {"import", "--snapshot", a, "-o", folder.file("./a.db"), "--force"},
                                             {"export", a, "--format", "csv", "--table", "block", "-o", a, "--force"},
                                             {"plan", a, "-o", a, "--force"},
                                             {"plan", "mlp", "--gpus", "4", "--prefetch-lists", a, "-o", a, "--force"},
                                             {"compare", a, a, "-o", a, "--force"},
                                             {"compare", a, a, "-o", folder.file("page.txt")},
                                             {"sweep", "mlp", "--gpus", "4", "--csv", b, "-o", b}}) {
    const Answer answer = run_cli(arguments);
    INFO(arguments[0] << " " << answer.err);
    CHECK(answer.status == 2);
    CHECK(answer.out.empty());
    CHECK(foreshard::test::file_bytes(a) == "x");
  }
}

TEST_CASE("an option with an equals sign and nothing behind it takes no other option for its value") {
  const Answer answer = run_cli({"plan", "mlp", "--gpus", "4", "--name=", "--json"});
  CHECK(answer.status == 2);
  CHECK(answer.err == "error: '--name=' has no value\n  hint: give --name=VALUE\n");
}

TEST_CASE("outputs that cannot be are found before the work") {
  const foreshard::test::TemporaryFolder folder;
  const std::string fifo = folder.file("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  for (const std::string verb : {"plan", "sweep"}) {
    const Answer nowhere = run_cli({verb, "no-such-model", "-o", folder.file("no/x.db")});
    INFO(nowhere.err);
    CHECK(nowhere.status == 3);
    CHECK(nowhere.err.find("cannot create a file here") != std::string::npos);
    const Answer special = run_cli({verb, "no-such-model", "-o", fifo, "--force"});
    CHECK(special.status == 2);
    CHECK(special.err.find("is a FIFO, and no file") != std::string::npos);
  }
  CHECK(std::filesystem::is_fifo(fifo));
}
